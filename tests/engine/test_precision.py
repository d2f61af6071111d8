"""Autocast as asked for, a loss scale in fp16, and what an overflow does."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, AdamW

from gradkeeper.engine import Engine, ScaleCollapseError
from tests.engine.problems import classifier, loader, rows, same

X, Y = rows(8)


class Probe(nn.Module):
    """Notes in which dtype autocast runs, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.forward_dtype: torch.dtype | None = None
        self.backward_autocast: bool | None = None

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        self.forward_dtype = y.dtype
        y.register_hook(self._note)
        return y

    def _note(self, grad: Tensor) -> None:
        self.backward_autocast = torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)],
)
def test_the_block_runs_in_autocast_and_backward_does_not(
    precision: str, dtype: torch.dtype
) -> None:
    model = Probe()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), precision=precision)  # type: ignore[arg-type]

    with engine.window() as window:
        window.backward(cross_entropy(model(X), Y))

    assert model.forward_dtype == dtype
    assert model.backward_autocast is False
    assert not torch.is_autocast_enabled("cpu")
    assert window.stepped


def test_autocast_ends_with_the_block_also_after_an_exception() -> None:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), precision="bf16")
    with pytest.raises(KeyError):
        with engine.window():
            raise KeyError

    assert not torch.is_autocast_enabled("cpu")


def hand_written(dtype: torch.dtype, *, size: int, clip: float) -> nn.Module:
    model = classifier()
    optimizer = AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
    for place, (x, y) in enumerate(loader(32)):
        with torch.autocast("cpu", dtype):
            loss = cross_entropy(model(x), y) / size
        scaler.scale(loss).backward()
        if place % size == size - 1:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return model


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_equals_the_hand_written_loop_bitwise(precision: str, size: int) -> None:
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    expected = hand_written(dtype, size=size, clip=0.3)

    model = classifier()
    optimizer = AdamW(model.parameters(), lr=0.01)
    engine = Engine(model, optimizer, clip_norm=0.3, precision=precision)  # type: ignore[arg-type]
    for window in engine.windows(loader(32), size=size):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y))

    assert same(model, expected)


@pytest.mark.parametrize("fused", [False, True])
def test_an_overflow_is_a_skip_that_ticks_no_scheduler_and_halves_the_scale(fused: bool) -> None:
    model = classifier()
    optimizer = AdamW(model.parameters(), lr=0.1, fused=fused)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    engine = Engine(model, optimizer, scheduler=scheduler, precision="fp16")

    with engine.window() as window:
        window.backward(cross_entropy(model(X), Y) * math.inf)

    assert not window.stepped
    assert window.reason == "the scaled gradients overflowed in float16"
    assert (window.step, window.grad_norm, scheduler.last_epoch) == (0, None, 0)
    assert same(model, classifier())
    with engine.window() as window:
        window.backward(cross_entropy(model(X), Y))
    assert window.stepped
    assert (window.step, scheduler.last_epoch) == (1, 1)


def test_an_overflow_of_the_scaled_loss_heals_by_itself() -> None:
    """The gradient times 65,536 is too large for float16; a smaller scale will do."""
    model = nn.Linear(1, 1, bias=False)
    engine = Engine(model, SGD(model.parameters(), lr=1e-6), precision="fp16")
    stepped = []
    for _ in range(6):
        with engine.window() as window:
            window.backward((model(torch.full((1, 1), 4.0)) * 1.0).float().sum() * 4)
        stepped.append(window.stepped)

    assert stepped[0] is False
    assert stepped[-1] is True


def test_twenty_overflows_in_a_row_raise() -> None:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), precision="fp16")

    def overflow() -> None:
        with engine.window() as window:
            window.backward(cross_entropy(model(X), Y) * math.nan)

    for _ in range(19):
        overflow()
    with pytest.raises(ScaleCollapseError, match="20 windows in a row"):
        overflow()
    assert same(model, classifier())


def test_a_step_between_overflows_starts_the_count_anew() -> None:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), precision="fp16")
    for place in range(45):
        with engine.window() as window:
            factor = 1.0 if place % 15 == 14 else math.nan
            window.backward(cross_entropy(model(X), Y) * factor)

    assert window.step == 3


def test_a_window_in_fp16_that_fails_while_stepping_does_not_block_the_next() -> None:
    model = classifier()
    optimizer = SGD(model.parameters(), lr=0.1)
    engine = Engine(model, optimizer, precision="fp16")
    handle = optimizer.register_step_pre_hook(lambda *_: (_ for _ in ()).throw(OSError("hook")))
    with pytest.raises(OSError, match="hook"):
        with engine.window() as window:
            window.backward(cross_entropy(model(X), Y))
    handle.remove()

    with engine.window() as window:
        window.backward(cross_entropy(model(X), Y))

    assert window.stepped
