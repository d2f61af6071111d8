"""Calls left over from a loop that was written by hand, noticed while a window is open.

`loss.backward()`, `optimizer.step()` and `zero_grad()` are the engine's inside a window. Whoever
calls them there spends a gradient twice, at an unknown weight, or never: an error says where, and
what to write. What is looked at costs nothing per parameter. A backward that the engine did not
make is measured; it may be for another model, or for the gradient of an input.
"""

import ast
import functools
import linecache
import os
import weakref
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradkeeper.engine.errors import LeftoverError
from gradkeeper.engine.gradients import local
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.model import Site
from gradkeeper.source_line import OURS, calling_site, spoken, user_site
from gradkeeper.torch_private import has_step_hooks

if TYPE_CHECKING:
    from gradkeeper.engine.window import Window

_ENGINE = OURS + "engine" + os.sep
STEP = (
    "steps inside a window, and the window steps at its end: remove it. Leaving the block "
    "normalises, clips (Engine(clip_norm=…)), steps, ticks the scheduler and zeroes"
)
ZERO = (
    "zeroes gradients that were credited in this window, before they are spent: remove it. "
    "Leaving the block zeroes, after the step"
)
CLEARED = (
    "the gradients that {credited} credited are gone at {here}, before they are spent{by}: remove "
    "what clears them. Leaving the block zeroes, after the step"
)
BACKWARD = (
    "is a backward that the window does not know, and it reaches {names}: write "
    "window.backward(loss, weight=…). For the gradient of an input alone, "
    "loss.backward(inputs=[x]) or torch.autograd.grad(loss, x)"
)


class Leftovers:
    """Of one engine: taken up and put down with each window's block."""

    def __init__(self, owners: Sequence[Owner]) -> None:
        self.ours = False
        """A backward runs that is the engine's, or is being looked at already. Inside of it,
        checkpointed layers and custom functions run more."""
        self.unknown: list[tuple[Site, Owner, Tensor]] = []
        """Parameters that a backward of somebody else's has credited in this window."""
        self._owners = owners
        self._window: Window | None = None
        self._thread = 0
        self._owner: Owner | None = None
        for owner in owners:
            # Undone with the engine: what comes and goes with each window costs twenty times as
            # much, and would have a compiled step compiled anew.
            for undo in (_tap_step(owner.optimizer, self), _tap_zero(owner.optimizer, self)):
                weakref.finalize(self, undo).atexit = False

    def open(self, window: "Window", owner: Owner) -> None:
        self._window, self._owner = window, owner
        self._thread = get_ident()
        self.unknown = []
        _watch_backward(self)

    def close(self) -> None:
        _leave_backward(self)
        self._window = self._owner = None

    @property
    def here(self) -> bool:
        """Whether it is the window's own thread that asks."""
        return self._window is not None and self._thread == get_ident()

    def refuse_step(self) -> None:
        if self.here:
            raise LeftoverError(f"{spoken(user_site(2))} {STEP}")

    def refuse_zero(self, optimizer: Optimizer) -> None:
        """Before anything is credited there is nothing to lose, nor is there in other owners'."""
        if not self.here or self._window is None or not self._window.credits:
            return
        if self._owner is not None and self._owner.optimizer is optimizer:
            raise LeftoverError(f"{spoken(user_site(2))} {ZERO}")

    def measure(self, backward: Callable[[], Any], site: Site) -> Any:
        """Runs somebody else's backward, and looks which parameters it credits."""
        watched = [(owner, p) for owner in self._owners for p in parameters_of(owner.optimizer)]
        before = [_mark(parameter) for _, parameter in watched]
        self.ours = True
        try:
            return backward()
        finally:
            self.ours = False
            for (owner, parameter), mark in zip(watched, before, strict=True):
                gradient, version = _mark(parameter)
                if gradient is not mark[0] or version != mark[1]:
                    self.unknown.append((site, owner, parameter))

    def found(self) -> str | None:
        """What is wrong with the window's gradients; nothing where they were cleared since."""
        if not self.unknown:
            return None
        still = [backward for backward in self.unknown if _holds(backward[2])]
        self.unknown = []
        if not still:
            return None
        site, owner, _ = still[0]
        names = owner.names_of(parameter for _, _, parameter in still)
        shown = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
        return f"{spoken(site)} {BACKWARD.format(names=shown or 'the optimizer')}"


def cleared(credited: Site, here: Site) -> str:
    """For gradients that were set to None by hand, or by a module's zero_grad()."""
    line = _clearing_line(here)
    by = "" if line is None else f" (line {line} clears)"
    return CLEARED.format(credited=spoken(credited), here=spoken(here), by=by)


def _clearing_line(here: Site) -> int | None:
    """The first one that clears in the `with` block around that line, as far as its text tells."""
    try:
        tree = ast.parse("".join(linecache.getlines(here.file)))
    except (SyntaxError, ValueError):
        return None
    blocks = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and node.lineno <= here.line <= (node.end_lineno or 0)
    ]
    lines = [line for block in blocks[-1:] for node in ast.walk(block) for line in _clears(node)]
    return min(lines, default=None)


def _clears(node: ast.AST) -> list[int]:
    match node:
        case ast.Call(func=ast.Attribute(attr="zero_grad")):
            return [node.lineno]
        case ast.Assign(targets=[ast.Attribute(attr="grad")], value=ast.Constant(value=None)):
            return [node.lineno]
    return []


def _mark(parameter: Tensor) -> tuple[Tensor | None, int]:
    gradient = parameter.grad
    return gradient, 0 if gradient is None else local(gradient)._version


def _holds(parameter: Tensor) -> bool:
    gradient = parameter.grad
    if gradient is None:
        return False
    part = local(gradient)
    values = part.coalesce().values() if part.is_sparse else part
    return bool(torch.count_nonzero(values))


# The taps, each with its undo


def _tap_step(optimizer: Optimizer, leftovers: Leftovers) -> Callable[[], object]:
    if not has_step_hooks(optimizer):
        return _nothing
    found = weakref.ref(leftovers)

    def refuse(*_: object) -> None:
        known = found()
        if known is not None:
            known.refuse_step()

    return optimizer.register_step_pre_hook(refuse).remove


def _tap_zero(optimizer: Optimizer, leftovers: Leftovers) -> Callable[[], object]:
    """On the instance: a copy or a pickle of an optimizer does not take it along."""
    itself, found = weakref.ref(optimizer), weakref.ref(leftovers)
    own = vars(optimizer).get("zero_grad")

    def zero_grad(*args: Any, **options: Any) -> None:
        optimizer, known = itself(), found()
        assert optimizer is not None, "it is being called"
        if known is not None:
            known.refuse_zero(optimizer)
        if own is not None:
            own(*args, **options)
        else:  # looked up now: others may have wrapped the class's meanwhile
            type(optimizer).zero_grad(optimizer, *args, **options)

    def undo() -> None:
        optimizer = itself()
        if optimizer is None or vars(optimizer).get("zero_grad") is not zero_grad:
            return  # somebody has wrapped it since; from now on it only passes the call on
        del vars(optimizer)["zero_grad"]
        if own is not None:
            vars(optimizer)["zero_grad"] = own

    vars(optimizer)["zero_grad"] = zero_grad
    return undo


_open: list[Leftovers] = []
_original: Callable[..., Any] | None = None
"""What was there before ours."""


def _watch_backward(leftovers: Leftovers) -> None:
    """torch.autograd.backward, through which Tensor.backward goes too: one wrapper for all engines,
    there while any of them has a window open."""
    global _original
    if _original is None or not (_open or _in_place()):
        _original = torch.autograd.backward
        torch.autograd.backward = _backward
    _open.append(leftovers)


def _leave_backward(leftovers: Leftovers) -> None:
    global _original
    _open.remove(leftovers)
    # Where somebody has wrapped ours since, it stays and only passes calls on.
    if not _open and torch.autograd.backward is _backward:
        assert _original is not None
        torch.autograd.backward = _original
        _original = None


def _in_place() -> bool:
    """Whether ours is still called, be it by somebody's who has wrapped it."""
    function: Any = torch.autograd.backward
    while function not in (None, _backward):
        function = getattr(function, "__wrapped__", None)
    return function is _backward


@functools.wraps(torch.autograd.backward)
def _backward(*args: Any, **options: Any) -> Any:
    assert _original is not None, "there while it is in place"
    if len(_open) == 1 and _open[0].ours:  # a window's own, as nearly all are
        return _original(*args, **options)
    watching = [leftovers for leftovers in _open if not leftovers.ours and leftovers.here]
    site = calling_site(_ENGINE) if watching else None
    if site is None:
        return _original(*args, **options)
    run = functools.partial(_original, *args, **options)
    for leftovers in watching:
        run = functools.partial(leftovers.measure, run, site)
    return run()


def _nothing() -> None:
    return
