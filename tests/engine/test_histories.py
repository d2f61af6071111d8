"""Any history of windows, good and bad, against a dumb oracle that never had the bad ones."""

import contextlib
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from gradkeeper.engine import Engine, Window
from tests.engine.problems import classifier, distance, rows, weights_of

X, Y = rows(16, torch.float64)
RATE, MOMENTUM = 0.1, 0.9

Kind = Literal["credit", "sum", "again", "nothing", "nan", "tear", "raise", "stop"]
KINDS: list[Kind] = ["credit", "sum", "again", "nothing", "nan", "tear", "raise", "stop"]


@dataclass(frozen=True)
class Action:
    kind: Kind
    start: int
    weight: int


actions = st.builds(Action, st.sampled_from(KINDS), st.integers(0, 8), st.integers(1, 8))
histories = st.lists(st.lists(actions, max_size=5), min_size=1, max_size=5)


class Torn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        raise MemoryError


class LoopError(Exception):
    pass


def loss_of(model: nn.Sequential, action: Action) -> Tensor:
    part = slice(action.start, action.start + action.weight)
    hidden = model[1](model[0](X[part]))
    if action.kind == "tear":
        hidden = Torn.apply(hidden)  # type: ignore[no-untyped-call]
    reduction = "sum" if action.kind == "sum" else "mean"
    loss = cross_entropy(model[3](hidden), Y[part], reduction=reduction)
    return loss * math.nan if action.kind in ("nan", "nothing") else loss


def play(window: Window, model: nn.Sequential, history: list[Action]) -> None:
    for place, action in enumerate(history):
        match action.kind:
            case "raise":
                raise LoopError
            case "stop":
                break
            case "nothing":
                window.backward(loss_of(model, action), weight=0)
            case "tear":
                with contextlib.suppress(MemoryError):
                    window.backward(loss_of(model, action), weight=action.weight)
            case "sum":
                window.backward(loss_of(model, action), weight=action.weight, reduction="sum")
            case "again" if place:
                window.backward(loss_of(model, action), counts=False)
            case _:
                window.backward(loss_of(model, action), weight=action.weight)


def by_engine(windows: list[list[Action]]) -> nn.Sequential:
    model = classifier(torch.float64)
    optimizer = SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    engine = Engine(model, optimizer, on_nonfinite="skip")
    for history in windows:
        with contextlib.suppress(LoopError):
            with engine.window() as window:
                play(window, model, history)
    return model


def gradient(model: nn.Sequential, history: list[Action]) -> list[Tensor] | None:
    """The weighted mean of the window's gradients; None if there is none to spend."""
    parameters = list(model.parameters())
    total: Any = 0.0
    items, last = 0, 0
    for place, action in enumerate(history):
        if action.kind == "stop":
            break
        if action.kind in ("raise", "tear"):
            return None
        counts = action.kind != "again" or place == 0
        if counts:
            last = 0 if action.kind == "nothing" else action.weight
            items += last
        if last and action.kind == "nan":
            return None
        if last:
            total = total + loss_of(model, action) * (1 if action.kind == "sum" else last)
    if not items:
        return None
    return list(torch.autograd.grad(total / items, parameters))


def by_oracle(windows: list[list[Action]]) -> nn.Sequential:
    model = classifier(torch.float64)
    parameters = list(model.parameters())
    speed = [torch.zeros_like(p) for p in parameters]
    for history in windows:
        spent = gradient(model, history)
        if spent is None:
            continue
        with torch.no_grad():
            for p, v, g in zip(parameters, speed, spent, strict=True):
                v.mul_(MOMENTUM).add_(g)
                p.sub_(RATE * v)
    return model


@settings(deadline=None, max_examples=60)
@given(windows=histories)
def test_bad_windows_leave_no_trace_in_any_history(windows: list[list[Action]]) -> None:
    found = weights_of(by_engine(windows))

    expected = weights_of(by_oracle(windows))

    assert distance(found, expected) <= 1e-12


def test_the_oracle_can_disagree() -> None:
    good = [Action("credit", 0, 4)]

    found = weights_of(by_engine([good]))

    assert distance(found, weights_of(by_oracle([good, good]))) > 1e-4
