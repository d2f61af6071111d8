"""A window that fails leaves nothing behind: later ones go on as if it had not been."""

import contextlib
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from gradkeeper.engine import Engine, LeftoverError, NonFiniteError, WeightError, Window
from tests.engine.problems import classifier, engine_of, rows, same

X, Y = rows(8)


class Breaks(torch.autograd.Function):
    """Fails half-way through backward, as an allocation that does not fit does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        raise MemoryError("out of memory")


def torn_loss(model: nn.Sequential) -> Tensor:
    """The last layer has its gradient by the time the first one's fails."""
    hidden = Breaks.apply(model[1](model[0](X)))  # type: ignore[no-untyped-call]
    return cross_entropy(model[3](hidden), Y)


def credit(window: Window, model: nn.Module) -> None:
    window.backward(cross_entropy(model(X), Y), weight=8)


def assert_next_window_is_the_first(engine: Engine, model: nn.Sequential) -> None:
    """The next window moves the weights as if none had come before."""
    twin = classifier()
    with engine_of(twin).window() as window:
        credit(window, twin)

    with engine.window() as window:
        credit(window, model)

    assert window.stepped
    assert window.step == 1
    assert same(model, twin)


def test_an_exception_leaves_the_block_and_no_gradient_stays() -> None:
    model = classifier()
    engine = engine_of(model)

    with pytest.raises(KeyError, match="missing"):
        with engine.window() as window:
            credit(window, model)
            raise KeyError("missing")

    assert not window.stepped
    assert window.reason == "KeyError left the block"
    assert window.step == 0
    assert all(p.grad is None for p in model.parameters())
    assert_next_window_is_the_first(engine, model)


def test_a_loop_goes_on_after_an_exception_with_what_was_not_read() -> None:
    batches = [rows(8)] * 5
    model, twin = classifier(), classifier()
    engine = engine_of(model)

    reads: list[int] = []
    for window in engine.windows(batches, size=2):
        try:
            with window:
                for _ in window:
                    if not reads:
                        credit(window, model)
                        raise ValueError("a bad batch")
                    credit(window, model)
        except ValueError:
            pass
        reads.append(window.read)

    other = engine_of(twin)
    for window in other.windows(batches[:4], size=2):
        with window:
            for _ in window:
                credit(window, twin)
    assert reads == [1, 2, 2]
    assert same(model, twin)


def test_a_failure_of_the_loader_discards_the_window_and_the_loop_goes_on() -> None:
    class Shaky(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            if index == 1:
                raise OSError("unreadable")
            return X[index], Y[index]

    model = classifier()
    windows = []
    for window in engine_of(model).windows(
        torch.utils.data.DataLoader(Shaky(), batch_size=1), size=2
    ):
        try:
            with window:
                for x, y in window:
                    window.backward(cross_entropy(model(x), y))
        except OSError:
            pass
        windows.append((window.read, window.stepped))

    assert windows == [(1, False), (2, True), (2, True)]


def test_a_failure_inside_backward_leaves_the_block_cleanly() -> None:
    model = classifier()
    engine = engine_of(model)

    with pytest.raises(MemoryError):
        with engine.window() as window:
            window.backward(torn_loss(model))

    assert_next_window_is_the_first(engine, model)


def test_a_torn_backward_caught_inside_the_block_discards_the_whole_window() -> None:
    model = classifier()
    engine = engine_of(model)

    with engine.window() as window:
        credit(window, model)
        with contextlib.suppress(MemoryError):
            window.backward(torn_loss(model))
        credit(window, model)

    assert not window.stepped
    assert window.reason == "a backward failed half-way: MemoryError: out of memory"
    assert window.grad_norm is None
    assert same(model, classifier())
    assert_next_window_is_the_first(engine, model)


def nan_loss(model: nn.Module) -> Tensor:
    return cross_entropy(model(X), Y) * math.nan


def test_nan_is_raised_and_never_spent() -> None:
    model = classifier()
    engine = engine_of(model)

    with pytest.raises(NonFiniteError, match=r"gradient of 0\.weight, 0\.bias, 3\.weight and 1"):
        with engine.window() as window:
            credit(window, model)
            window.backward(nan_loss(model))

    assert not window.stepped
    assert "NaN or inf" in str(window.reason)
    assert same(model, classifier())
    assert_next_window_is_the_first(engine, model)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_window_with_nan_or_inf_is_skipped_on_request(value: float) -> None:
    model = classifier()
    optimizer = SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    engine = Engine(model, optimizer, scheduler=scheduler, on_nonfinite="skip")

    with engine.window() as window:
        window.backward(cross_entropy(model(X), Y) * value)

    assert not window.stepped
    assert "NaN or inf in the gradient" in str(window.reason)
    assert (window.grad_norm, window.step) == (None, 0)
    assert scheduler.last_epoch == 0
    optimizer.param_groups[0]["lr"] = 0.1
    with engine.window() as window:
        credit(window, model)
    assert window.stepped
    assert scheduler.last_epoch == 1


def test_a_norm_that_overflows_is_no_reason_to_skip() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    model = nn.ParameterList([parameter])

    with Engine(model, SGD(model.parameters(), lr=1.0), clip_norm=5.0).window() as window:
        window.backward((parameter * torch.tensor([3e30, 4e30])).sum())

    assert window.grad_norm == pytest.approx(5e30)
    assert torch.allclose(parameter, torch.tensor([-3.0, -4.0]))


def test_a_window_without_backward_takes_no_step_and_says_so() -> None:
    model = classifier()
    with engine_of(model).window() as window:
        pass

    assert not window.stepped
    assert window.reason == "no backward in this window"
    assert (window.loss, window.grad_norm, window.step) == (None, None, 0)


def test_gradients_made_by_hand_are_not_spent_and_the_reason_says_so() -> None:
    model = classifier()
    engine = engine_of(model)
    with engine.window() as window:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)

    assert not window.stepped
    assert "none from window.backward(loss)" in str(window.reason)
    assert_next_window_is_the_first(engine, model)


def test_gradients_taken_away_inside_the_block_are_no_step() -> None:
    model = classifier()
    with pytest.raises(LeftoverError, match="are gone at"):
        with engine_of(model).window() as window:
            credit(window, model)
            model.zero_grad()

    assert not window.stepped
    assert same(model, classifier())


def test_a_window_of_total_weight_zero_takes_no_step_and_says_so() -> None:
    model = classifier()
    engine = engine_of(model)
    with engine.window() as window:
        window.backward(nan_loss(model), weight=0)
        window.backward(nan_loss(model), counts=False)

    assert not window.stepped
    assert window.reason == "the weights of this window add up to 0"
    assert_next_window_is_the_first(engine, model)


def test_weight_zero_contributes_nothing_even_if_its_loss_is_nan() -> None:
    model, twin = classifier(), classifier()
    with engine_of(model).window() as window:
        window.backward(nan_loss(model), weight=0)
        credit(window, model)
        window.backward(nan_loss(model), weight=torch.tensor(0))
        window.backward(torch.tensor(math.nan), weight=0.0)
    with engine_of(twin).window() as expected:
        credit(expected, twin)

    assert same(model, twin)
    assert window.loss == expected.loss


def test_weight_zero_skips_the_backward_of_sqrt_at_zero() -> None:
    parameter = nn.Parameter(torch.zeros(()))
    model = nn.ParameterList([parameter])
    with engine_of(model).window() as window:
        window.backward(parameter.sqrt(), weight=0)
        window.backward(parameter * 2)

    assert window.stepped
    assert torch.isfinite(parameter)


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf, "many", torch.ones(2), None])
def test_a_weight_that_is_none_is_refused(weight: Any) -> None:
    model = classifier()
    engine = engine_of(model)
    if weight is None:
        weight = torch.tensor(-3.0)

    with pytest.raises(WeightError, match="a weight is"):
        with engine.window() as window:
            window.backward(cross_entropy(model(X), Y), weight=weight)

    assert_next_window_is_the_first(engine, model)


def test_a_weight_error_caught_inside_the_block_costs_nothing() -> None:
    model, twin = classifier(), classifier()
    with engine_of(model).window() as window:
        credit(window, model)
        with pytest.raises(WeightError):
            window.backward(cross_entropy(model(X), Y), weight=-1)
    with engine_of(twin).window() as window:
        credit(window, twin)

    assert same(model, twin)


def test_another_weight_with_counts_false_is_refused() -> None:
    model = classifier()
    with pytest.raises(WeightError, match="leave it out"):
        with engine_of(model).window() as window:
            credit(window, model)
            window.backward(cross_entropy(model(X), Y), weight=7, counts=False)


def test_an_optimizer_that_fails_leaves_no_gradient() -> None:
    model = classifier()
    optimizer = SGD(model.parameters(), lr=0.1)
    handle = optimizer.register_step_pre_hook(lambda *_: (_ for _ in ()).throw(OSError("hook")))
    engine = Engine(model, optimizer)

    with pytest.raises(OSError, match="hook"):
        with engine.window() as window:
            credit(window, model)

    handle.remove()
    assert window.reason == "OSError: hook"
    assert_next_window_is_the_first(engine, model)
