"""Optimizers: built, stepped, zeroed; and modules zeroed, or given another part in mid-run."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from gradkeeper.torch_private import keep_from_compiler, leave_to_python, step_wrapper
from gradkeeper.watcher.patches import Undo, replace
from gradkeeper.watcher.taps.call import Calls


def tap(calls: Calls) -> list[Undo]:
    return [
        *_steps(calls),
        _built(calls),
        _optimizer_zero(calls),
        _module_zero(calls),
        *_module_parts(calls),
    ]


def _steps(calls: Calls) -> list[Undo]:
    """torch's own hooks: they fire for every subclass, whoever overrides step."""
    here = calls.here

    def before(optimizer: Optimizer, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        recorder = here.recorder or calls.recorder()
        if recorder is None:
            return
        try:
            if not options and len(args) <= 1 and recorder.steps.again(optimizer):
                return
        except Exception as error:
            calls.stop(error)
        calls.tell(recorder.steps.begins, optimizer, closure=_has_closure(args, options))

    def after(optimizer: Optimizer, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        recorder = here.recorder or calls.recorder()
        if recorder is None:
            return
        try:
            if recorder.steps.ends_again(optimizer):
                return
        except Exception as error:
            calls.stop(error)
        calls.tell(recorder.steps.ends, optimizer, closure=_has_closure(args, options))

    handles = [
        register_optimizer_step_pre_hook(keep_from_compiler(before)),
        register_optimizer_step_post_hook(keep_from_compiler(after)),
    ]
    return [*(handle.remove for handle in handles), _uncompiled_hooks()]


_lock = threading.Lock()
_watching = 0


def _uncompiled_hooks() -> Undo:
    """The function that calls the hooks is not compiled meanwhile; the step that it calls is."""
    code = step_wrapper()

    def watching(more: int) -> None:
        global _watching
        with _lock:
            _watching += more
            leave_to_python(code, leave=_watching > 0)

    watching(1)
    return lambda: watching(-1)


def _has_closure(args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    if len(args) + len(options) <= 1:
        return False
    return any(callable(argument) for argument in args[1:]) or callable(options.get("closure"))


def _built(calls: Calls) -> Undo:
    def make(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def init(self: Optimizer, params: Any, *args: Any, **options: Any) -> None:
            original(self, params, *args, **options)
            recorder = calls.recorder()
            if recorder is not None:
                calls.tell(recorder.optimizers.built, self, recorder.sites.here())

        return init

    return replace(Optimizer, "__init__", make)


def _optimizer_zero(calls: Calls) -> Undo:
    here = calls.here

    def make(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def zero_grad(self: Optimizer, set_to_none: bool = True) -> None:
            recorder = here.recorder or calls.recorder()
            if recorder is None:
                original(self, set_to_none)
                return
            usual = False
            try:
                usual = set_to_none and recorder.zeros.again(self)
            except Exception as error:
                calls.stop(error)
            if not usual:
                calls.tell(recorder.zeros.zero_owned, self, to_none=set_to_none)
            original(self, set_to_none)
            if not usual:
                calls.tell(recorder.zeros.zeroed_owned, self, to_none=set_to_none)

        return zero_grad

    return replace(Optimizer, "zero_grad", make)


def _module_zero(calls: Calls) -> Undo:
    def make(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def zero_grad(self: torch.nn.Module, set_to_none: bool = True) -> None:
            recorder = None if torch.compiler.is_compiling() else calls.recorder()
            if recorder is None:
                original(self, set_to_none)
                return
            calls.tell(recorder.optimizers.settle)
            parameters = list(self.parameters())
            calls.tell(recorder.zeros.zero, parameters, to_none=set_to_none)
            original(self, set_to_none)
            calls.tell(recorder.zeros.zeroed, parameters)

        return zero_grad

    return replace(torch.nn.Module, "zero_grad", make, traceable=True)


def _module_parts(calls: Calls) -> list[Undo]:
    """A head that is replaced, or a parameter: somebody may own it, or nobody."""
    here = calls.here

    @keep_from_compiler
    def registered(module: Any, name: str, part: Any) -> None:
        recorder = here.recorder
        if recorder is not None:
            recorder.backwards.look_again()

    handles = (
        register_module_module_registration_hook(registered),
        register_module_parameter_registration_hook(registered),
    )
    return [handle.remove for handle in handles]
