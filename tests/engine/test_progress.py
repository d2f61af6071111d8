"""What is told while it runs: the log, the bar, and how often the host waits for the device."""

import io
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.utils._python_dispatch import TorchDispatchMode

from gradkeeper.engine import Engine, EngineWarning
from tests.engine.problems import classifier, credit_all, engine_of, loader, rows


def test_the_log_is_called_with_the_step_and_named_numbers() -> None:
    told: list[tuple[int, Mapping[str, float]]] = []
    model = classifier()
    engine = Engine(
        model,
        SGD(model.parameters(), lr=0.1),
        log=lambda step, values: told.append((step, values)),
    )

    for window in engine.windows(loader(16), size=2):
        with window:
            credit_all(window, model)

    assert [step for step, _ in told] == [1, 2]
    values = told[-1][1]
    assert values == {
        "loss": window.loss,
        "grad_norm": window.grad_norm,
        "weight": 8.0,
        "lr": 0.1,
        "stepped": 1.0,
    }
    assert all(isinstance(value, float) for value in values.values())


def test_the_log_of_several_owners_names_them() -> None:
    told: list[Mapping[str, float]] = []
    models = {"a": classifier(), "b": classifier()}
    engine = Engine(
        models,
        {name: SGD(model.parameters(), lr=0.1) for name, model in models.items()},
        log=lambda step, values: told.append(values),
    )
    with engine.window(owner="b"):
        pass

    assert told == [{"b/weight": 0.0, "b/lr": 0.1, "b/stepped": 0.0}]


class Unreachable:
    """A log whose server is away at some of its calls."""

    def __init__(self, *away: int) -> None:
        self.away = away
        self.calls = 0
        self.told: list[int] = []

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        self.calls += 1
        if self.calls in self.away:
            raise ConnectionError("the server is away")
        self.told.append(step)


def test_a_log_that_fails_later_is_told_once_and_costs_no_step() -> None:
    model, log = classifier(), Unreachable(2, 3)
    engine = Engine(model, SGD(model.parameters(), lr=0.1), log=log)

    with pytest.warns(EngineWarning) as warned:
        run(engine, model)

    assert [str(warning.message) for warning in warned] == [
        "log= failed at step 2 (ConnectionError: the server is away): the training goes on, and "
        "calls it again after the next window"
    ]
    assert warned[0].filename == __file__
    assert log.told == [1, 4]
    assert engine.steps == {"optimizer": 4}


def test_a_log_that_never_worked_raises_at_the_first_window() -> None:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), log=Unreachable(1))

    with pytest.raises(ConnectionError, match="the server is away"):
        run(engine, model)

    assert engine.steps == {"optimizer": 1}


def test_a_log_may_end_the_program() -> None:
    def log(step: int, values: Mapping[str, float]) -> None:
        if step == 2:
            raise KeyboardInterrupt

    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), log=log)

    with pytest.raises(KeyboardInterrupt):
        run(engine, model)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(engine: Engine, model: torch.nn.Module) -> None:
    for window in engine.windows(loader(16), size=2, epochs=2):
        with window:
            credit_all(window, model)


def test_the_bar_shows_epoch_step_loss_norm_and_items_per_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("gradkeeper.engine.progress.REFRESH", 0.0)
    model = classifier()

    run(Engine(model, SGD(model.parameters(), lr=0.1)), model)

    shown = terminal.getvalue()
    for word in ("epoch 1/2", "epoch 2/2", "2/2", "step=4", "loss=", "norm=", "items/s="):
        assert word in shown


def test_the_bar_of_groups_counts_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1))
    for group in engine.batches(loader(16), size=3):
        with engine.window() as window:
            for x, y in group:
                window.backward(cross_entropy(model(x), y))

    assert "2/2" in terminal.getvalue()


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["unwanted", "no terminal"])
def test_the_bar_is_quiet_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    model = classifier()

    run(Engine(model, SGD(model.parameters(), lr=0.1), progress=not stream.isatty()), model)

    assert stream.getvalue() == ""


class Waits(TorchDispatchMode):
    """Counts the calls that hand a tensor's number to the host."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("_local_scalar_dense", "is_nonzero", "equal"):
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "options", [{}, {"clip_norm": 0.01}, {"clip_value": 0.01}, {"precision": "fp16"}]
)
@pytest.mark.parametrize("size", [1, 4])
def test_the_host_waits_once_per_window(options: dict[str, Any], size: int) -> None:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), **options)
    batches = list(loader(16))

    for window in engine.windows(batches, size=size):
        with Waits() as waits:
            with window:
                for x, y in window:
                    window.backward(cross_entropy(model(x), y), weight=4)
        assert window.stepped
        assert sum(waits.counts.values()) <= 1


def test_the_counter_of_waits_can_count() -> None:
    with Waits() as waits:
        torch.ones(()).item()
        bool(torch.ones(()))

    assert sum(waits.counts.values()) == 2


def test_a_loss_that_nobody_reads_is_not_waited_for() -> None:
    model = classifier()
    engine = engine_of(model)
    with Waits() as waits:
        with engine.window() as window:
            window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]))
            assert sum(waits.counts.values()) == 0
        assert sum(waits.counts.values()) == 1
        assert window.loss is not None
        assert sum(waits.counts.values()) == 2
