"""torch.compile holds no state: a run goes on with it, without it, or with what was saved before
names were kept as the model itself has them.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import Adam

from gradkeeper.engine import Engine, EngineWarning
from gradkeeper.engine.errors import ResumeError
from gradkeeper.engine.resume.stateful import unwrapped
from tests.engine.problems import classifier, loader, same

PREFIX = "_orig_mod."


def built(folder: Path | None = None, *, compiles: bool) -> tuple[Any, Engine]:
    model: Any = nn.Sequential(classifier(dropout=0.5), nn.BatchNorm1d(3))
    if compiles:
        # Its kernels are torch's own, so that bits can be compared.
        model = torch.compile(model, backend="eager")
    return model, Engine(model, Adam(model.parameters(), lr=0.01), checkpoint=folder)


def trained(model: nn.Module, engine: Engine, *, leave_after: int | None = None) -> nn.Module:
    for window in engine.windows(loader(24, shuffle=True), epochs=2):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y), weight=len(y))
        if window.step == leave_after:
            engine.save()
        if window.step == (leave_after or 99) + 1:
            raise KeyboardInterrupt
    return model


def saved(folder: Path, *, compiles: bool) -> None:
    torch.manual_seed(3)
    with pytest.raises(KeyboardInterrupt):
        trained(*built(folder, compiles=compiles), leave_after=4)


def whole() -> nn.Module:
    torch.manual_seed(3)
    return trained(*built(compiles=False))


@pytest.mark.parametrize("before", [False, True])
def test_a_run_goes_on_with_the_compiler_and_without_it_and_is_told(
    tmp_path: Path, before: bool
) -> None:
    saved(tmp_path, compiles=before)
    model, engine = built(tmp_path, compiles=not before)

    with pytest.warns(EngineWarning, match=f"compiled was {before} at the save and is"):
        assert engine.resume()

    assert same(trained(model, engine), whole())


def test_nothing_is_told_where_the_compiler_is_as_before(tmp_path: Path) -> None:
    saved(tmp_path, compiles=True)
    model, engine = built(tmp_path, compiles=True)

    assert engine.resume()

    assert same(trained(model, engine), whole())


@pytest.mark.parametrize("wrapper", [PREFIX, f"{PREFIX}module."])
@pytest.mark.parametrize("compiles", [False, True])
def test_names_of_a_compiled_model_are_read_as_they_were_kept_before(
    wrapper: str, compiles: bool
) -> None:
    torch.manual_seed(3)
    model, engine = built(compiles=False)
    model[0][0].weight.requires_grad_(False)
    model[1].eval()
    trained(model, engine)
    other, again = built(compiles=compiles)

    again.load_state_dict(wrapped(engine.state_dict(), wrapper))

    inner = unwrapped(other)
    assert same(model, inner)
    assert torch.equal(model[1].running_mean, inner.get_buffer("1.running_mean"))
    assert not inner.get_parameter("0.0.weight").requires_grad
    assert other.training
    assert not inner.get_submodule("1").training


def wrapped(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    """As 0.1.0 kept it."""
    shape, kept = state["shape"]["optimizer"], state["owners"]["optimizer"]["model"]
    for place, key in ((shape["model"], "parameters"), (shape["model"], "buffers")):
        place[key] = {prefix + name: value for name, value in place[key].items()}
    for group in shape["optimizer"]["groups"]:
        group["parameters"] = [prefix + name for name in group["parameters"]]
    metadata = kept["state"]._metadata
    kept["state"] = type(kept["state"])((prefix + n, v) for n, v in kept["state"].items())
    kept["state"]._metadata = type(metadata)(
        (f"{prefix}{name}".removesuffix("."), value) for name, value in metadata.items()
    )
    for key in ("frozen", "evaluating"):
        kept[key] = [prefix + name for name in kept[key]]
    return state


def test_another_model_is_refused_by_the_names_of_its_own() -> None:
    _, engine = built(compiles=True)
    state = wrapped(engine.state_dict(), PREFIX)
    other = nn.Sequential(nn.Linear(6, 3))

    with pytest.raises(ResumeError, match=r"parameters 0\.0\.weight: float32\[16, 6\]"):
        Engine(other, Adam(other.parameters())).load_state_dict(state)
