"""Calls left over from a hand-written loop are told at their line; whatever is right goes on."""

import copy
import gc
import inspect
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import LBFGS, SGD, AdamW, Optimizer
from torch.utils.checkpoint import checkpoint

from gradkeeper.engine import Engine, LeftoverError, LossError, Window
from gradkeeper.watcher import Watch
from tests.engine.problems import classifier, credit_all, engine_of, loader, plain_sgd, rows, same

X, Y = rows(8)
Break = Callable[[Window, nn.Module, Optimizer], None]


def loss_of(model: nn.Module) -> Tensor:
    return cross_entropy(model(X), Y)


def plain_backward(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    loss_of(model).backward()


def autograd_backward(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    torch.autograd.backward([loss_of(model)])


def backward_twice(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    window.backward(loss_of(model))
    loss_of(model).backward()


def backward_first(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    loss_of(model).backward()
    window.backward(loss_of(model))


def backward_of_a_part(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    window.backward(loss_of(model))
    model[3].bias.sum().backward()  # type: ignore[index]


def scaled_backward(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    torch.amp.GradScaler("cpu").scale(loss_of(model)).backward()


def step_after_backward(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    window.backward(loss_of(model))
    optimizer.step()


def clip_and_step(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    window.backward(loss_of(model))
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def step_by_a_scaler(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    window.backward(loss_of(model))
    torch.amp.GradScaler("cpu", enabled=False).step(optimizer)


def zero_between(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    window.backward(loss_of(model))
    optimizer.zero_grad()
    window.backward(loss_of(model))


def zero_in_place(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    window.backward(loss_of(model))
    optimizer.zero_grad(set_to_none=False)


def zero_of_the_model(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    window.backward(loss_of(model))
    model.zero_grad()
    window.backward(loss_of(model))


def line_in(function: Callable[..., Any], text: str) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    ("broken", "culprit", "remedy"),
    [
        (plain_backward, "loss_of(model).backward()", r"write window\.backward\(loss, weight=…\)"),
        (autograd_backward, "torch.autograd", r"write window\.backward\(loss, weight=…\)"),
        (backward_twice, "    loss_of(model).backward()", r"write window\.backward\(loss"),
        (backward_first, "    loss_of(model).backward()", r"write window\.backward\(loss"),
        (backward_of_a_part, "model[3]", "it reaches 3.bias: write"),
        (scaled_backward, "GradScaler", r"write window\.backward\(loss"),
        (step_after_backward, "optimizer.step()", "the window steps at its end: remove it"),
        (clip_and_step, "optimizer.step()", r"clips \(Engine\(clip_norm=…\)\)"),
        (step_by_a_scaler, "GradScaler", "the window steps at its end: remove it"),
        (zero_between, "optimizer.zero_grad()", "before they are spent: remove it"),
        (zero_in_place, "zero_grad", "before they are spent: remove it"),
        (zero_of_the_model, "    window.backward", "are gone at .*remove what clears them"),
    ],
)
def test_what_is_left_over_is_an_error_at_its_line(
    broken: Break, culprit: str, remedy: str
) -> None:
    model = classifier()
    optimizer = plain_sgd(model.parameters())
    engine = Engine(model, optimizer, progress=False)

    with pytest.raises(LeftoverError, match=remedy) as told:
        with engine.window() as window:
            broken(window, model, optimizer)

    line = line_in(broken, culprit)
    assert f"{Path(__file__).name}:{line} " in str(told.value)
    assert not window.stepped
    assert same(model, classifier())
    assert all(p.grad is None for p in model.parameters())


def test_a_module_that_is_zeroed_last_is_told_with_the_line_that_clears() -> None:
    model = classifier()
    with pytest.raises(LeftoverError) as told:
        with engine_of(model).window() as window:
            window.backward(loss_of(model))
            model.zero_grad()

    here = line_in(
        test_a_module_that_is_zeroed_last_is_told_with_the_line_that_clears, "    model."
    )
    assert f"(line {here} clears)" in str(told.value)


def test_the_next_window_is_as_if_the_broken_one_had_not_been() -> None:
    model, twin = classifier(), classifier()
    engine = engine_of(model)
    with pytest.raises(LeftoverError):
        with engine.window():
            loss_of(model).backward()
    for net, one in ((model, engine), (twin, engine_of(twin))):
        with one.window() as window:
            window.backward(loss_of(net))

    assert window.stepped
    assert same(model, twin)


def test_an_error_that_is_caught_inside_the_block_discards_the_window() -> None:
    model = classifier()
    with engine_of(model).window() as window:
        loss_of(model).backward()
        with pytest.raises(LeftoverError):
            window.backward(loss_of(model))

    assert not window.stepped
    assert same(model, classifier())


def test_a_leftover_in_a_loop_over_windows_ends_it_at_the_first() -> None:
    model = classifier()
    engine = engine_of(model)
    with pytest.raises(LeftoverError, match="is a backward that the window does not know"):
        for window in engine.windows(loader(), size=2):
            with window:
                for x, y in window:
                    cross_entropy(model(x), y).backward()

    assert engine.steps == {"optimizer": 0}


def test_a_leftover_inside_a_closure_is_told() -> None:
    model = classifier()
    optimizer = LBFGS(model.parameters(), max_iter=2)
    with pytest.raises(LeftoverError, match=r"write window\.backward"):
        with Engine(model, optimizer, progress=False).window() as window:

            @window.closure
            def evaluate() -> None:
                optimizer.zero_grad()
                loss_of(model).backward()

    assert same(model, classifier())


# What is right


def steps(act: Callable[[Window, nn.Module, Optimizer], object]) -> nn.Module:
    """Trained by two windows of two losses, with something of the user's in between."""
    model = classifier()
    optimizer = plain_sgd(model.parameters())
    engine = Engine(model, optimizer, progress=False)
    for _ in range(2):
        with engine.window() as window:
            window.backward(loss_of(model))
            act(window, model, optimizer)
            window.backward(loss_of(model))
        assert window.stepped
    return model


def probe(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    """Another model, trained on what this one computes."""
    other = nn.Linear(3, 1)
    own = SGD(other.parameters(), lr=0.1)
    own.zero_grad()
    other(model(X).detach()).sum().backward()
    own.step()


def of_the_input(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    x = X.clone().requires_grad_()
    cross_entropy(model(x), Y).backward(inputs=[x])
    assert x.grad is not None


def of_the_input_by_grad(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(model(x), Y), x)
    assert gradient.any()


def of_the_input_of_frozen_weights(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    x = X.clone().requires_grad_()
    model.requires_grad_(False)
    cross_entropy(model(x), Y).backward()
    model.requires_grad_(True)
    assert x.grad is not None


def penalty(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    """Double backward: the inner one keeps its graph, and is not accumulated."""
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    gradient.square().sum()


def one_gradient_dropped(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    """A frozen layer's is put back by what the test compares with."""
    kept = model[0].weight.grad  # type: ignore[index]
    model[0].weight.grad = None  # type: ignore[index]
    model[0].weight.grad = kept  # type: ignore[index]


def masked(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad *= 1.0


def weightless(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    window.backward(loss_of(model) * float("nan"), weight=0)


def copied(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    """An average of the weights that begins in mid-window; its own optimizer is nobody's."""
    twin, taken = copy.deepcopy((model, optimizer))
    twin.zero_grad()
    taken.zero_grad()
    taken.step()
    pickle.loads(pickle.dumps(optimizer)).zero_grad()


def in_another_thread(window: Window, model: nn.Module, optimizer: Optimizer) -> None:
    def train() -> None:
        other = nn.Linear(6, 1)
        own = SGD(other.parameters(), lr=0.1)
        other(X).sum().backward()
        own.step()

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    "act",
    [
        probe,
        of_the_input,
        of_the_input_by_grad,
        of_the_input_of_frozen_weights,
        penalty,
        one_gradient_dropped,
        masked,
        weightless,
        copied,
        in_another_thread,
    ],
)
def test_what_is_not_the_engines_is_let_alone(act: Break) -> None:
    torch.manual_seed(3)

    assert same(steps(act), steps(lambda *_: None))


def test_zeroing_before_anything_is_credited_loses_nothing() -> None:
    model = classifier()
    optimizer = plain_sgd(model.parameters())
    with Engine(model, optimizer, progress=False).window() as window:
        optimizer.zero_grad()
        model.zero_grad()
        window.backward(loss_of(model))

    twin = classifier()
    with engine_of(twin).window() as other:
        other.backward(loss_of(twin))
    assert window.stepped
    assert same(model, twin)


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_were_read_and_cleared_again_are_no_leftover(to_none: bool) -> None:
    """An attack that takes the way of the parameters too, in a window of one micro-batch."""
    model = classifier()
    with engine_of(model).window() as window:
        x = X.clone().requires_grad_()
        cross_entropy(model(x), Y).backward()
        model.zero_grad(set_to_none=to_none)
        assert x.grad is not None
        window.backward(cross_entropy(model(X + x.grad.sign() / 100), Y))

    assert window.stepped


def test_zeroing_and_stepping_between_windows_is_the_users() -> None:
    model = classifier()
    optimizer = plain_sgd(model.parameters())
    engine = Engine(model, optimizer, progress=False)
    for window in engine.windows(loader(), size=2):
        optimizer.zero_grad()
        with window:
            credit_all(window, model)
        optimizer.zero_grad()
        optimizer.step()

    assert window.stepped


def test_owners_credit_only_their_own_and_zero_the_others_freely() -> None:
    models = {"G": nn.Linear(2, 2), "D": nn.Linear(2, 1)}
    optimizers = {name: SGD(one.parameters(), lr=0.1) for name, one in models.items()}
    engine = Engine(models, optimizers, progress=False)
    for _ in range(2):
        with engine.window(owner="D") as window:
            window.backward(models["D"](models["G"](torch.ones(3, 2)).detach()).mean())
        with engine.window(owner="G") as window:
            window.backward(models["D"](models["G"](torch.ones(3, 2))).mean())
            optimizers["D"].zero_grad()
            models["D"].zero_grad()

    assert engine.steps == {"G": 2, "D": 2}


def test_another_owners_step_inside_a_window_is_told() -> None:
    models = {"G": nn.Linear(2, 2), "D": nn.Linear(2, 1)}
    optimizers = {name: SGD(one.parameters(), lr=0.1) for name, one in models.items()}
    engine = Engine(models, optimizers, progress=False)

    with pytest.raises(LeftoverError, match="steps inside a window"):
        with engine.window(owner="D") as window:
            window.backward(models["D"](torch.ones(3, 2)).mean())
            optimizers["G"].step()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_layers_run_backwards_of_their_own(reentrant: bool) -> None:
    def train(forward: Callable[[nn.Sequential, Tensor], Tensor]) -> nn.Module:
        model = classifier()
        with engine_of(model).window() as window:
            for _ in range(2):
                x = X.clone().requires_grad_()
                window.backward(cross_entropy(forward(model, x), Y))
        return model

    found = train(lambda model, x: checkpoint(model, x, use_reentrant=reentrant))

    assert same(found, train(lambda model, x: model(x)))


class Nested(torch.autograd.Function):
    """Runs a backward of its own inside the backward: a layer that is computed again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        x, weight = ctx.saved_tensors
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            (again @ weight).backward(grads[0])
        assert again.grad is not None
        return again.grad, None


def test_a_custom_function_may_credit_a_parameter_by_itself() -> None:
    model = nn.Linear(6, 6)
    weight = nn.Parameter(torch.eye(6))
    model.register_parameter("own", weight)
    with engine_of(model).window() as window:
        window.backward(Nested.apply(model(X), weight).sum())  # type: ignore[no-untyped-call]
        window.backward(Nested.apply(model(X), weight).sum())  # type: ignore[no-untyped-call]

    assert window.stepped


def test_the_closures_own_zero_grad_is_let_alone() -> None:
    def train(zeroes: bool) -> nn.Module:
        model = classifier(torch.float64)
        optimizer = LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")
        with Engine(model, optimizer, progress=False).window() as window:

            @window.closure
            def evaluate() -> None:
                if zeroes:
                    optimizer.zero_grad()
                window.backward(cross_entropy(model(X.double()), Y))

        return model

    assert same(train(True), train(False))


class Wrapper(Optimizer):
    """As accelerate's: an optimizer by name, which never ran Optimizer's own __init__."""

    def __init__(self, inner: Optimizer) -> None:
        self.inner = inner
        self.defaults = inner.defaults

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self.inner.param_groups

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad(set_to_none)


def test_a_wrapped_optimizer_steps_the_one_inside() -> None:
    def train(build: Callable[[Any], Optimizer]) -> nn.Module:
        model = classifier()
        with Engine(model, build(model.parameters()), progress=False).window() as window:
            window.backward(loss_of(model))
        assert window.stepped
        return model

    found = train(lambda parameters: Wrapper(plain_sgd(parameters)))

    assert same(found, train(plain_sgd))


def test_hooks_of_the_user_see_what_they_saw() -> None:
    model = classifier()
    seen: list[str] = []
    optimizer = AdamW(model.parameters())
    optimizer.register_step_pre_hook(lambda *_: seen.append("step"))
    first = next(iter(model.parameters()))
    first.register_post_accumulate_grad_hook(lambda _: seen.append("grad"))
    with Engine(model, optimizer, progress=False).window() as window:
        window.backward(loss_of(model))
        window.backward(loss_of(model))

    assert seen == ["grad", "grad", "step"]


def test_a_window_that_goes_on_after_a_restart_is_not_taken_for_a_leftover() -> None:
    def build() -> tuple[nn.Module, Engine]:
        model = classifier()
        return model, engine_of(model)

    model, engine = build()
    state: dict[str, Any] = {}
    for window in engine.windows(list(loader()), size=3):
        with window:
            for x, y in window:
                if window.read == 2 and not state:
                    state = copy.deepcopy(engine.state_dict())
                window.backward(cross_entropy(model(x), y))

    again, other = build()
    other.load_state_dict(state)
    for window in other.windows(list(loader()), size=3):
        with window:
            for x, y in window:
                window.backward(cross_entropy(again(x), y))

    assert other.steps == engine.steps


def test_a_loss_that_reaches_nothing_is_still_the_first_thing_that_is_told() -> None:
    model = classifier()
    with pytest.raises(LossError, match="reaches no parameter"):
        with engine_of(model).window() as window:
            window.backward(torch.ones(1, requires_grad=True).sum())


# Nothing is left behind


def taps_of(optimizer: Optimizer) -> tuple[Any, ...]:
    hooks = len(optimizer._optimizer_step_pre_hooks)
    return torch.autograd.backward, sorted(vars(optimizer)), hooks


@pytest.mark.parametrize("fails", [True, False])
def test_torch_is_left_as_it_was(fails: bool) -> None:
    model = classifier()
    optimizer = plain_sgd(model.parameters())
    before = taps_of(optimizer)
    engine: Engine | None = Engine(model, optimizer, progress=False)
    backward = torch.autograd.backward
    try:
        with engine.window() as window:  # type: ignore[union-attr]
            window.backward(loss_of(model))
            if fails:
                raise KeyError
    except KeyError:
        pass

    assert torch.autograd.backward is backward
    del engine, window
    gc.collect()
    assert taps_of(optimizer) == before


def test_a_zero_grad_of_the_instances_own_is_put_back() -> None:
    model = classifier()
    optimizer = plain_sgd(model.parameters())
    own = optimizer.zero_grad
    optimizer.zero_grad = own  # type: ignore[method-assign]
    with Engine(model, optimizer, progress=False).window() as window:
        window.backward(loss_of(model))
    del window
    gc.collect()

    assert vars(optimizer)["zero_grad"] is own


def test_windows_of_two_engines_may_end_in_any_order() -> None:
    first, second = classifier(), classifier()
    before = torch.autograd.backward
    one, other = engine_of(first).window(), engine_of(second).window()
    for _ in range(2):
        one.__enter__()
        other.__enter__()
        one.backward(loss_of(first))
        other.backward(loss_of(second))
        one.__exit__(None, None, None)
        other.__exit__(None, None, None)
        assert one.stepped
        assert other.stepped
        one, other = engine_of(first).window(), engine_of(second).window()

    assert torch.autograd.backward is before


def test_a_watch_that_begins_and_ends_anywhere_keeps_windows_guarded() -> None:
    before = torch.autograd.backward
    model = classifier()
    engine = engine_of(model)
    optimizer = engine._owners["optimizer"].optimizer
    watch = Watch((optimizer,), on_finding="record")
    with engine.window() as window:
        watch.__enter__()
        window.backward(loss_of(model))
    with engine.window() as window:
        window.backward(loss_of(model))
        watch.__exit__(None, None, None)
    with pytest.raises(LeftoverError):
        with engine.window():
            loss_of(model).backward()

    assert torch.autograd.backward is before
