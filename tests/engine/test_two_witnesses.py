"""The engine writes down what it did, the watcher what it saw: the two tapes agree.

Neither knows the other. Compared are kinds, owners, order, files and functions of all that touches
gradients and weights; each has its own way of opening accounts and of counting batches.
"""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import LBFGS, SGD, AdamW
from torch.optim.lr_scheduler import StepLR

from gradkeeper.engine import Engine
from gradkeeper.model import Event, Tape
from gradkeeper.model import events as ev
from gradkeeper.watcher import Watch
from tests.engine.problems import classifier, credit_all, loader, rows

COMPARED = (
    ev.Backward,
    ev.Adjust,
    ev.Clip,
    ev.Scale,
    ev.Unscale,
    ev.Step,
    ev.Update,
    ev.Tick,
    ev.Zero,
)
Story = list[tuple[str, str | None, str, str]]


def told(tape: Tape) -> Story:
    return [
        (type(event).__name__, _owner(event), event.site.file, event.site.function)
        for event in tape
        if isinstance(event, COMPARED)
    ]


def _owner(event: Event) -> str | None:
    return getattr(event, "optimizer", None)


def plain(size: int, **options: object) -> Engine:
    model = classifier()
    optimizer = AdamW(model.parameters(), lr=0.01)
    scheduler = StepLR(optimizer, 1)
    engine = Engine(model, optimizer, scheduler=scheduler, **options)  # type: ignore[arg-type]
    for window in engine.windows(loader(23), size=size, epochs=2):
        with window:
            credit_all(window, model)
    return engine


def gan() -> Engine:
    G, D = nn.Linear(2, 4), nn.Linear(4, 1)  # noqa: N806
    opt_g = SGD(G.parameters(), lr=0.1)
    opt_d = SGD(D.parameters(), lr=0.1)
    engine = Engine({"opt_g": G, "opt_d": D}, {"opt_g": opt_g, "opt_d": opt_d})
    for group in engine.batches([torch.randn(8, 2) for _ in range(6)], size=2):
        for owner in ("opt_d", "opt_g"):
            with engine.window(owner=owner) as window:
                for noise in group:
                    window.backward(D(G(noise)).mean())
    return engine


def skipped() -> Engine:
    model = classifier()
    optimizer = SGD(model.parameters(), lr=0.1)
    engine = Engine(model, optimizer, on_nonfinite="skip")
    x, y = rows(8)
    for place in range(8):
        with engine.window() as window:
            factor = float("nan") if place == 3 else 1.0
            window.backward(cross_entropy(model(x), y) * factor)
    return engine


def by_closure() -> Engine:
    model = classifier()
    optimizer = LBFGS(model.parameters(), max_iter=4)
    engine = Engine(model, optimizer)
    for window in engine.windows(loader(16), size=2, epochs=2):
        with window:
            window.closure(lambda: credit_all(window, model))  # noqa: B023
    return engine


RUNS: dict[str, Callable[[], Engine]] = {
    "one": lambda: plain(1),
    "four": lambda: plain(4),
    "clipped one": lambda: plain(1, clip_norm=0.01),
    "clipped": lambda: plain(4, clip_norm=0.01),
    "clamped one": lambda: plain(1, clip_value=0.01),
    "clamped": lambda: plain(4, clip_value=0.01),
    "bf16": lambda: plain(4, precision="bf16"),
    "fp16": lambda: plain(4, precision="fp16", clip_norm=0.01),
    "gan": gan,
    "skipped": skipped,
    "closure": by_closure,
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_watcher_saw_what_the_engine_did(run: Callable[[], Engine]) -> None:
    with Watch() as watch:
        engine = run()

    assert told(watch.tape) == told(engine.tape)
    assert list(watch.findings) == []
