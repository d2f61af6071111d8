"""How much of a model trains: told once where a part is frozen, silence where all of it does."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.optim import SGD

from gradkeeper.engine import Engine
from gradkeeper.engine import progress as told_of


@pytest.fixture(autouse=True)
def nothing_told_yet() -> Iterator[None]:
    told_of._told.clear()
    yield
    told_of._told.clear()


def adapted(hidden: int = 100) -> nn.ModuleDict:
    base = nn.Sequential(nn.Linear(hidden, hidden), nn.Linear(hidden, hidden))
    return nn.ModuleDict({"base": base, "adapter": nn.Linear(hidden, 1)})


def engine_of(model: nn.Module) -> Engine:
    return Engine(model, SGD(model.parameters(), lr=0.1), progress=False)


def test_a_frozen_base_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    model = adapted()
    model["base"].requires_grad_(False)

    engine_of(model)
    engine_of(model)

    assert capsys.readouterr().err == ("gradkeeper: 2 of 6 tensors train, 0.5 % of the numbers\n")


def test_a_model_that_trains_whole_needs_no_census(capsys: pytest.CaptureFixture[str]) -> None:
    engine_of(adapted())

    assert capsys.readouterr().err == ""


def test_what_the_optimizer_lacks_does_not_train(capsys: pytest.CaptureFixture[str]) -> None:
    model = adapted()
    Engine(model, SGD(model["base"].parameters(), lr=0.1), progress=False)

    assert capsys.readouterr().err == (
        "gradkeeper: 4 of 6 tensors train, 99 % of the numbers; 2 more ask for gradients, and the "
        "optimizer does not have them\n"
    )


def test_owners_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    models = {"G": adapted(), "D": nn.Linear(2, 1)}
    models["G"].get_submodule("base").requires_grad_(False)
    Engine(models, {name: SGD(one.parameters(), lr=0.1) for name, one in models.items()})

    assert capsys.readouterr().err == "gradkeeper: G: 2 of 6 tensors train, 0.5 % of the numbers\n"


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [(0, 9, "0.0 %"), (1, 10**6, "less than 0.1 %"), (999, 1000, "99 %"), (4, 1000, "0.4 %")],
)
def test_shares_are_not_rounded_to_none_or_all(part: int, whole: int, words: str) -> None:
    assert told_of._percent(part, whole) == words


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_base_that_trains_beside_its_adapters_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    peft = pytest.importorskip("peft")
    base = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    model = peft.get_peft_model(base, peft.LoraConfig(target_modules=["0"], r=2))
    engine_of(model)
    assert "2 of 6 tensors train, 3.0 % of the numbers" in capsys.readouterr().err

    model.requires_grad_(True)
    engine_of(model)

    assert "6 of 6 tensors train, 100 % of the numbers" in capsys.readouterr().err


def test_numbers_of_a_shared_weight_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    model = nn.Sequential(first, second, nn.Linear(3, 3, bias=False).requires_grad_(False))

    engine_of(model)

    assert "1 of 2 tensors train, 50 % of the numbers" in capsys.readouterr().err
    assert torch.equal(first.weight, second.weight)
