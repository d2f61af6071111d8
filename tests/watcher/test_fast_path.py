"""The short way through a steady loop sees exactly what the long way sees."""

import _thread
import sys
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gradkeeper.model import Finding
from gradkeeper.model.tape import encode
from gradkeeper.watcher import Watch
from gradkeeper.watcher.fast_path import FastPath
from gradkeeper.watcher.loops import UNTOLD, Rounds

STEPS = 32
STEADY = 16
"""By then a loop that repeats itself has been recognised."""

ODD = (
    "no zero",
    "late zero",
    "in-place zero",
    "module zero",
    "cleared by hand",
    "one cleared by hand",
    "zeroed through data",
    "no backward",
    "two backwards",
    "halved",
    "summed",
    "frozen",
    "written",
    "assigned",
    "read",
    "moved",
    "not finite",
    "clipped",
    "no step",
    "two steps",
    "zeroed by hand after the step",
    "written after the step",
    "one written after the step",
    "another step",
    "a fault",
    "a new group",
    "a new optimizer",
)


def batches(*, loader: bool) -> Iterator[torch.Tensor]:
    x = torch.randn(STEPS * 4, 4)
    if loader:
        for (batch,) in DataLoader(TensorDataset(x), batch_size=4):
            yield batch
        return
    yield from x.split(4)


class Halving(torch.optim.SGD):
    """Writes into the gradients that it steps by."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(0.5)
        return super().step(closure)


def train(
    odd: dict[int, str], *, loader: bool, kind: type[torch.optim.SGD] = torch.optim.SGD
) -> list[torch.Tensor]:
    """A loop that does something else at some of its steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    spare = nn.Linear(1, 1)
    opt = kind(model.parameters(), lr=0.01)
    first = model[0].weight
    for i, x in enumerate(batches(loader=loader)):
        what = odd.get(i, "")
        if what == "in-place zero":
            opt.zero_grad(set_to_none=False)
        elif what == "module zero":
            model.zero_grad()
        elif what == "cleared by hand":
            for p in model.parameters():
                p.grad = None
        elif what == "zeroed through data":
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.data.zero_()
        elif what not in ("no zero", "late zero"):
            opt.zero_grad()
        if what == "a new group" and len(opt.param_groups) == 1:
            opt.add_param_group({"params": list(spare.parameters())})
        if what == "a new optimizer":
            opt = kind(model.parameters(), lr=0.01)
        first.requires_grad_(what != "frozen")
        loss = model(x).square().mean()
        if what == "summed":
            loss = model(x).square().sum()
        if what == "halved":
            loss = loss / 2
        if what == "not finite":
            loss = loss * float("nan")
        if what == "two backwards":
            loss.backward(retain_graph=True)
        if what == "a fault":
            loss.register_hook(fail)
        try:
            if what != "no backward":
                loss.backward()
        except ArithmeticError:
            continue
        by_hand(what, opt, model)
        if what != "no step":
            opt.step()
        if what == "two steps":
            opt.step()
        after_the_step(what, model)
    return [p.detach().clone() for p in model.parameters()]


def by_hand(what: str, opt: torch.optim.Optimizer, model: nn.Module) -> None:
    """What is done between backward and step."""
    first = next(model.parameters())
    if what == "late zero":
        opt.zero_grad()
    if what == "one cleared by hand":
        first.grad = None
    if what == "written" and first.grad is not None:
        first.grad.mul_(2)
    if what == "assigned":
        first.grad = torch.ones_like(first)
    if what == "read" and first.grad is not None:
        first.grad.norm()
    if what == "moved":
        with torch.no_grad():
            first.add_(0.1)
    if what == "clipped":
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if what == "another step":
        opt.step()


def after_the_step(what: str, model: nn.Module) -> None:
    first = next(model.parameters())
    if what == "zeroed by hand after the step":
        for p in model.parameters():
            if p.grad is not None:
                p.grad.zero_()
    if what == "written after the step":
        for p in model.parameters():
            if p.grad is not None:
                p.grad.add_(1)
    if what == "one written after the step" and first.grad is not None:
        first.grad.add_(1)


def fail(_: torch.Tensor) -> None:
    raise ArithmeticError


@contextmanager
def the_long_way() -> Iterator[None]:
    """Nothing is remembered, so nothing is expected."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FastPath, "learn", lambda *_, **__: None)
        patch.setattr(FastPath, "learn_ending", lambda *_: None)
        yield


def watched(
    odd: dict[int, str], *, loader: bool, kind: type[torch.optim.SGD] = torch.optim.SGD
) -> tuple[list[Finding], list[str]]:
    with Watch(on_finding="record") as watch:
        train(odd, loader=loader, kind=kind)
    # Encoded, for a factor that is no number differs from itself.
    return [*watch.findings, *watch.infos], [encode(event) for event in watch.tape]


@given(
    odd=st.dictionaries(st.integers(0, STEPS - 1), st.sampled_from(ODD), max_size=3),
    loader=st.booleans(),
    kind=st.sampled_from([torch.optim.SGD, Halving]),
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(odd={}, loader=False, kind=torch.optim.SGD)
@example(odd={26: "no zero"}, loader=True, kind=torch.optim.SGD)
@example(odd={26: "no zero"}, loader=False, kind=Halving)
@example(odd={25: "zeroed by hand after the step", 26: "no zero"}, loader=False, kind=Halving)
@example(odd={26: "no step"}, loader=False, kind=torch.optim.SGD)
@example(odd={26: "a fault", 29: "late zero"}, loader=False, kind=torch.optim.SGD)
def test_a_loop_that_changes_is_told_as_without_the_fast_path(
    odd: dict[int, str], loader: bool, kind: type[torch.optim.SGD]
) -> None:
    short = watched(odd, loader=loader, kind=kind)

    with the_long_way():
        assert watched(odd, loader=loader, kind=kind) == short


def told_by_hand(odd: dict[int, str], kind: type[torch.optim.SGD]) -> set[str]:
    """The kinds of events that tell of gradients written by hand."""
    with Watch(on_finding="record") as watch:
        train(odd, loader=False, kind=kind)
    return {type(event).__name__ for event in watch.tape} & {"Adjust", "Assign"}


@pytest.mark.parametrize("odd", ["no zero", "two steps", "no backward", "module zero"])
def test_what_an_optimizer_writes_into_gradients_is_not_taken_for_the_users_doing(odd: str) -> None:
    assert told_by_hand({STEADY + 8: odd}, Halving) == set()


@pytest.mark.parametrize("kind", [torch.optim.SGD, Halving])
def test_what_the_user_writes_after_a_step_is_told_where_no_zero_follows(
    kind: type[torch.optim.SGD],
) -> None:
    odd = {STEADY + 8: "written after the step", STEADY + 9: "no zero"}

    assert told_by_hand(odd, kind) == {"Adjust"}


def test_gradients_zeroed_by_hand_after_a_step_are_not_stale() -> None:
    step = STEADY + 8
    by_hand = {step: "zeroed by hand after the step", step + 1: "no zero"}

    right, _ = watched(by_hand, loader=False)
    wrong, _ = watched({step + 1: "no zero"}, loader=False)

    assert "GK101" not in {finding.rule for finding in right}
    assert "GK101" in {finding.rule for finding in wrong}


@pytest.mark.slow
@pytest.mark.parametrize("what", ODD)
def test_each_change_is_told_as_without_the_fast_path(what: str) -> None:
    short = watched({STEADY + 8: what}, loader=False)

    with the_long_way():
        assert watched({STEADY + 8: what}, loader=False) == short


def train_in_parts(parts: list[int], skipped: Set[int] = frozenset()) -> None:
    """Each batch in some parts; a step for each but those that are skipped."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    opt.zero_grad()
    for i, number in enumerate(parts):
        x = torch.randn(12, 4)
        for part in x.chunk(number):
            (model(part).square().mean() / number).backward()
        if i not in skipped:
            opt.step()
            opt.zero_grad()


def watched_in_parts(parts: list[int], skipped: set[int]) -> tuple[list[Finding], list[str]]:
    with Watch(on_finding="record") as watch:
        train_in_parts(parts, skipped)
    return [*watch.findings, *watch.infos], [encode(event) for event in watch.tape]


@given(
    parts=st.lists(st.sampled_from([2, 2, 2, 2, 3]), min_size=24, max_size=24),
    skipped=st.sets(st.integers(12, 23), max_size=3),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(parts=[2] * 24, skipped={18})
@example(parts=[2] * 24, skipped={*range(1, 24, 2)})
@example(parts=[2] * 24, skipped={*range(13, 24, 2)})
@example(parts=[2] * 18 + [3] * 6, skipped=set())
def test_parts_of_a_batch_are_told_as_without_the_fast_path(
    parts: list[int], skipped: set[int]
) -> None:
    short = watched_in_parts(parts, skipped)

    with the_long_way(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rounds, "quick", lambda *_: UNTOLD)
        assert watched_in_parts(parts, skipped) == short


def calls_of_keepers(steps: dict[int, str]) -> int:
    return arrivals(lambda: train(steps, loader=True))


def arrivals(training: Callable[[], object]) -> int:
    """How often a keeper had to take the long way to a line of the user's."""
    count = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_qualname == "Arrivals.arrive"

    with Watch(on_finding="record"):
        sys.setprofile(profile)
        try:
            training()
        finally:
            sys.setprofile(None)
    return count


def test_a_steady_loop_takes_the_fast_path() -> None:
    short = calls_of_keepers({})

    with the_long_way():
        long = calls_of_keepers({})

    assert long == 3 * STEPS
    assert short < 3 * STEADY + 12


def test_so_does_a_steady_loop_over_parts_of_a_batch() -> None:
    rounds = 4 * STEADY
    short = arrivals(lambda: train_in_parts([3] * rounds))

    with the_long_way():
        long = arrivals(lambda: train_in_parts([3] * rounds))

    assert long == 5 * rounds + 1
    assert short < 5 * (STEADY + 4)


def test_a_backward_that_the_outermost_line_of_all_calls_is_watched() -> None:
    """As in a script; there, nothing lies above it but the thread."""
    faults: list[BaseException] = []
    done = threading.Event()

    def script() -> None:
        try:
            model = nn.Linear(4, 1)
            opt = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(STEPS):
                torch.autograd.backward(model(torch.randn(4, 4)).square().mean())
                opt.step()
                opt.zero_grad()
        except BaseException as fault:
            faults.append(fault)
        done.set()

    with Watch(on_finding="record"):
        _thread.start_new_thread(script, ())
        assert done.wait(60)

    assert not faults
