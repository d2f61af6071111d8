"""Optimizers that evaluate the loss themselves: zero, call, normalise, as often as they ask."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.optim import LBFGS, SGD, Adam

from gradkeeper.engine import Engine, NonFiniteError, WindowError
from tests.engine.problems import classifier, credit_all, distance, rows, same, weights_of

X, Y = rows(12, torch.float64)


def lbfgs(model: nn.Module) -> LBFGS:
    return LBFGS(model.parameters(), max_iter=8, line_search_fn="strong_wolfe")


def by_hand(steps: int) -> nn.Module:
    model = classifier(torch.float64)
    optimizer = lbfgs(model)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(model(X), Y)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return model


def test_lbfgs_equals_the_hand_written_closure_bitwise() -> None:
    model = classifier(torch.float64)
    engine = Engine(model, lbfgs(model))
    for _ in range(3):
        with engine.window() as window:

            @window.closure
            def evaluate() -> None:
                window.backward(cross_entropy(model(X), Y))

    assert same(model, by_hand(3))
    assert window.step == 3


def test_a_closure_reads_the_micro_batches_anew_at_each_evaluation() -> None:
    model = classifier(torch.float64)
    engine = Engine(model, lbfgs(model))
    parts = list(zip(X.split([5, 3, 4]), Y.split([5, 3, 4]), strict=True))
    for window in engine.windows(parts, size=3, epochs=3):
        with window:

            @window.closure
            def evaluate() -> None:
                credit_all(window, model)  # noqa: B023

        assert window.read == 3

    assert distance(weights_of(model), weights_of(by_hand(3))) <= 1e-6


def test_the_loss_is_that_of_the_first_evaluation() -> None:
    model = classifier(torch.float64)
    before = cross_entropy(model(X), Y).item()
    with Engine(model, lbfgs(model)).window() as window:

        @window.closure
        def evaluate() -> None:
            window.backward(cross_entropy(model(X), Y), weight=12)

    assert window.loss == before
    assert window.grad_norm is not None
    assert all(p.grad is None for p in model.parameters())


def test_closures_in_bf16_see_the_weights_of_each_evaluation() -> None:
    """With autocast's cast cache, LBFGS ended at 7.07 (torch 2.13)."""
    torch.manual_seed(0)
    x = torch.randn(32, 4)
    y = x @ torch.randn(4, 1)
    model = nn.Linear(4, 1)
    engine = Engine(model, LBFGS(model.parameters(), max_iter=20), precision="bf16")

    for _ in range(5):
        with engine.window() as window:

            @window.closure
            def evaluate() -> None:
                window.backward(mse_loss(model(x).float(), y))

    assert mse_loss(model(x), y).item() < 0.01


def test_any_optimizer_may_have_a_closure() -> None:
    model, twin = classifier(), classifier()
    x, y = rows(8)
    with Engine(model, Adam(model.parameters())).window() as window:

        @window.closure
        def evaluate() -> None:
            window.backward(cross_entropy(model(x), y))

    with Engine(twin, Adam(twin.parameters())).window() as window:
        window.backward(cross_entropy(twin(x), y))

    assert same(model, twin)


def test_an_evaluation_that_fails_late_puts_weights_and_state_back() -> None:
    model = classifier(torch.float64)
    engine = Engine(model, lbfgs(model))
    calls = 0

    with pytest.raises(OSError, match="third"):
        with engine.window() as window:

            @window.closure
            def evaluate() -> None:
                nonlocal calls
                calls += 1
                if calls == 3:
                    raise OSError("third")
                window.backward(cross_entropy(model(X), Y))

    assert same(model, classifier(torch.float64))
    for _ in range(2):
        with engine.window() as window:
            window.closure(lambda: window.backward(cross_entropy(model(X), Y)))
    assert same(model, by_hand(2))


@pytest.mark.parametrize("on_nonfinite", ["raise", "skip"])
def test_nan_in_a_late_evaluation_never_reaches_the_weights(on_nonfinite: str) -> None:
    model = classifier(torch.float64)
    engine = Engine(model, lbfgs(model), on_nonfinite=on_nonfinite)  # type: ignore[arg-type]
    calls = 0

    def run() -> None:
        with engine.window() as window:

            @window.closure
            def evaluate() -> None:
                nonlocal calls
                calls += 1
                factor = math.nan if calls == 3 else 1.0
                window.backward(cross_entropy(model(X), Y) * factor)

        assert "NaN or inf" in str(window.reason)

    if on_nonfinite == "raise":
        with pytest.raises(NonFiniteError):
            run()
    else:
        run()
    assert same(model, classifier(torch.float64))


def test_a_closure_without_backward_takes_no_step() -> None:
    model = classifier(torch.float64)
    with Engine(model, lbfgs(model)).window() as window:
        window.closure(lambda: None)

    assert window.reason == "no backward in this window"


def test_lbfgs_without_a_closure_is_told_what_to_write() -> None:
    model = classifier(torch.float64)
    with pytest.raises(WindowError, match=r"@window\.closure"):
        with Engine(model, lbfgs(model)).window() as window:
            window.backward(cross_entropy(model(X), Y))
    assert all(p.grad is None for p in model.parameters())


def test_backward_beside_a_closure_is_refused() -> None:
    model = classifier(torch.float64)
    engine = Engine(model, lbfgs(model))
    loss = cross_entropy(model(X), Y)

    with pytest.raises(WindowError, match="belong inside it"):
        with engine.window() as window:
            window.closure(lambda: None)
            window.backward(loss)
    with pytest.raises(WindowError, match="one closure"):
        with engine.window() as window:
            window.backward(loss)
            window.closure(lambda: None)


def test_closures_in_fp16_are_refused() -> None:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), precision="fp16")
    with pytest.raises(WindowError, match="fp16"):
        with engine.window() as window:
            window.closure(lambda: None)
