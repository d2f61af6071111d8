"""What stands in the way of bit for bit: told at resume() and by a probe, refused by
deterministic=True; and silence where nothing does.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import SGD, AdamW

from gradkeeper.engine import Engine, EngineError, EngineWarning, Window
from gradkeeper.engine.determinism import changes, in_the_way, machine

X, Y = torch.randn(8, 4), torch.randn(8, 1)


@pytest.fixture(autouse=True)
def settings_as_before() -> Iterator[None]:
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    benchmark = torch.backends.cudnn.benchmark
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = benchmark


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))


def engine_for(model: nn.Module, **options: Any) -> Engine:
    return Engine(model, AdamW(model.parameters()), progress=False, **options)


def train(engine: Engine, model: nn.Module, steps: int) -> list[Tensor]:
    for _ in range(steps):
        with engine.window() as window:
            window.backward(mse_loss(model(X), Y))
    return [p.detach().clone() for p in [*model.parameters(), *model.buffers()]]


# At resume()


def saved(folder: Path) -> None:
    model = network()
    engine = engine_for(model, checkpoint=folder)
    train(engine, model, 1)
    engine.save()


def test_a_resume_where_nothing_has_changed_warns_of_nothing(tmp_path: Path) -> None:
    saved(tmp_path)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine_for(network(), checkpoint=tmp_path).resume()


def test_threads_that_changed_since_the_save_are_told(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    saved(tmp_path)
    torch.set_num_threads(2)

    with pytest.warns(EngineWarning, match=r"threads was 1 at the save and is 2 here: sums are"):
        assert engine_for(network(), checkpoint=tmp_path).resume()


def test_algorithms_that_are_chosen_otherwise_are_told(tmp_path: Path) -> None:
    saved(tmp_path)

    with pytest.warns(EngineWarning, match="deterministic was False at the save and is True here"):
        engine_for(network(), checkpoint=tmp_path, deterministic=True).resume()


def test_another_cpu_is_told_and_what_an_older_checkpoint_lacks_is_not() -> None:
    here = machine(gpu=False)

    [told] = changes({**here, "cpu": "another (AVX2)"}, here)

    assert told.startswith("cpu was 'another (AVX2)' at the save and is ")
    assert changes({}, here) == []
    assert changes(here, here) == []


# Settings of a GPU: judged as values, for there was none to run on.


GPU = {
    "cpu": "one",
    "threads": 1,
    "deterministic": True,
    "gpu": "one",
    "gpus": 1,
    "cudnn.benchmark": False,
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "NCCL_ALGO": "",
}


def test_nothing_is_in_the_way_where_all_is_set() -> None:
    assert in_the_way(GPU) == []


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("deterministic", False, "torch.use_deterministic_algorithms is off"),
        ("cudnn.benchmark", True, "cudnn.benchmark is on"),
        ("CUBLAS_WORKSPACE_CONFIG", "", "is not set: export CUBLAS_WORKSPACE_CONFIG=:4096:8"),
        ("CUBLAS_WORKSPACE_CONFIG", ":0:0", "is :0:0: export CUBLAS_WORKSPACE_CONFIG=:4096:8"),
        ("gpus", 2, "export NCCL_ALGO=Ring"),
    ],
)
def test_each_setting_of_a_gpu_is_told_with_what_to_write(
    setting: str, value: object, told: str
) -> None:
    [one] = in_the_way({**GPU, setting: value})

    assert told in one


def test_settings_of_a_gpu_say_nothing_of_a_model_on_the_cpu() -> None:
    torch.backends.cudnn.benchmark = True

    assert in_the_way(machine(gpu=False)) == []


# deterministic=True


def test_deterministic_sets_what_can_be_set() -> None:
    torch.backends.cudnn.benchmark = True

    engine_for(network(), deterministic=True)

    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.benchmark


def test_what_cannot_be_set_any_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    unset = {**GPU, "CUBLAS_WORKSPACE_CONFIG": ""}
    monkeypatch.setattr("gradkeeper.engine.determinism.machine", lambda gpu: unset)

    with pytest.raises(EngineError, match=r"deterministic=True cannot be kept here: CUBLAS_WORKS"):
        engine_for(network(), deterministic=True)


def test_with_it_an_operation_that_cannot_repeat_itself_raises() -> None:
    model = nn.Linear(4, 1)
    engine = engine_for(model, deterministic=True)

    with pytest.raises(RuntimeError, match="put_ does not have a deterministic implementation"):
        with engine.window() as window:
            window.backward(scattered(model))


def scattered(model: nn.Module) -> Tensor:
    places = torch.tensor([0, 0, 1, 2, 3, 4, 5, 6])
    out: Tensor = model(X)
    return torch.zeros(8, 1).put(places, out).square().mean()


# The probe


def test_a_step_that_repeats_itself_is_told_so() -> None:
    model = network()

    found = engine_for(model).probe(lambda window: window.backward(mse_loss(model(X), Y)))

    assert found.repeats
    assert found.operations == ()
    assert str(found) == (
        "a window that ran twice from one state ended with all 9 tensors equal, bit for bit"
    )


def test_the_first_tensor_that_differs_is_named() -> None:
    model = network()
    own = torch.Generator()  # nobody puts it back

    def step(window: Window) -> None:
        noisy = X + torch.randn(X.shape, generator=own)
        window.backward(mse_loss(model(X), Y) + model.get_submodule("0")(noisy).square().mean())

    found = engine_for(model).probe(step)

    assert not found.repeats
    assert "ended differently: 0.weight, in " in str(found)


def test_an_operation_without_a_deterministic_algorithm_is_named() -> None:
    model = nn.Linear(4, 1)

    found = engine_for(model).probe(lambda window: window.backward(scattered(model)))

    assert found.operations == ("put_",)
    assert "torch has no deterministic algorithm for put_" in str(found)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.filterwarnings("ignore:put_ does not have a deterministic implementation")
def test_it_is_named_too_where_torch_only_warns_of_it() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = nn.Linear(4, 1)

    found = engine_for(model).probe(lambda window: window.backward(scattered(model)))

    assert found.operations == ("put_",)
    assert torch.is_deterministic_algorithms_warn_only_enabled()


@pytest.mark.parametrize("before", [0, 2])
def test_a_probe_leaves_no_trace(tmp_path: Path, before: int) -> None:
    def run(*, probed: bool) -> list[Tensor]:
        told: list[int] = []
        model = network()
        engine = engine_for(
            model,
            checkpoint=tmp_path / str(probed),
            save_every=1,
            log=lambda step, values: told.append(step),
        )
        train(engine, model, before)
        if probed:
            engine.probe(lambda window: window.backward(mse_loss(model(X), Y)))
        result = train(engine, model, 2)
        assert told == list(range(1, before + 3))
        return result

    for one, other in zip(run(probed=False), run(probed=True), strict=True):
        assert torch.equal(one, other)


def test_a_step_that_fails_leaves_no_trace_either() -> None:
    model = network()
    engine = engine_for(model)
    before = [p.detach().clone() for p in model.parameters()]

    def step(window: Window) -> None:
        window.backward(mse_loss(model(X), Y))
        raise KeyError

    with pytest.raises(KeyError):
        engine.probe(step)

    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))
    assert len(train(engine, model, 1)) == 9


def test_a_probe_that_takes_no_step_says_so() -> None:
    engine = engine_for(network())

    with pytest.raises(EngineError, match="the probe's window took no step: "):
        engine.probe(lambda window: None)


def test_a_probe_in_a_loop_is_refused() -> None:
    model = nn.Linear(4, 1)
    engine = Engine(model, SGD(model.parameters(), lr=0.1), progress=False)

    for _ in engine.batches([X]):
        with pytest.raises(EngineError, match="before the first loop or between loops"):
            engine.probe(lambda window: window.backward(model(X).mean()))
