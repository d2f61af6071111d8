"""GradScaler: scale, unscale_, step, update. A scaler that is switched off is no scaler."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.amp import GradScaler

from gradkeeper.watcher.patches import Undo, replace
from gradkeeper.watcher.taps.call import Calls

AFTER_STEP = "after step()"
"""In torch's words for an `unscale_` that no `update` came before."""


def tap(calls: Calls) -> list[Undo]:
    return [_scale(calls), _unscale(calls), _step(calls), _update(calls)]


def _scale(calls: Calls) -> Undo:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def scale(self: GradScaler, outputs: Any) -> Any:
            scaled = original(self, outputs)
            recorder = calls.recorder()
            if recorder is not None and self.is_enabled() and isinstance(scaled, torch.Tensor):
                calls.tell(recorder.scaled, scaled, self)
            return scaled

        return scale

    return replace(GradScaler, "scale", make)


def _unscale(calls: Calls) -> Undo:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def unscale_(self: GradScaler, optimizer: torch.optim.Optimizer) -> Any:
            recorder = calls.recorder()
            by_user = recorder is not None and recorder.arrivals.underway.scaling is None
            if recorder is not None and by_user and self.is_enabled():
                calls.tell(recorder.unscales, optimizer)
            try:
                result = original(self, optimizer)
            except RuntimeError as error:
                # It refuses to prepare a second step without an update: one was meant all the same.
                if recorder is not None and AFTER_STEP in str(error):
                    calls.tell(recorder.steps.scaler_begins, self, optimizer)
                    calls.tell(recorder.steps.scaler_ends, optimizer)
                raise
            if recorder is not None and self.is_enabled():
                if by_user:
                    calls.tell(recorder.unscaled, optimizer, self)
                else:
                    calls.tell(recorder.noted, optimizer)
            return result

        return unscale_

    return replace(GradScaler, "unscale_", make)


def _step(calls: Calls) -> Undo:
    """Whether the step was taken is told by whether the optimizer's hook fired, or by found_inf
    where a fused optimizer decides for itself."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def step(self: GradScaler, optimizer: torch.optim.Optimizer, *args: Any, **kw: Any) -> Any:
            recorder = calls.recorder()
            if recorder is None or not self.is_enabled():
                return original(self, optimizer, *args, **kw)
            calls.tell(recorder.steps.scaler_begins, self, optimizer)
            try:
                result = original(self, optimizer, *args, **kw)
            except Exception:
                # It refuses a second step without an update: that was a step, and was not taken.
                calls.tell(recorder.steps.scaler_ends, optimizer)
                raise
            except BaseException:
                recorder.arrivals.underway.scaling = None
                raise
            calls.tell(recorder.steps.scaler_ends, optimizer)
            return result

        return step

    return replace(GradScaler, "step", make)


def _update(calls: Calls) -> Undo:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def update(self: GradScaler, *args: Any, **options: Any) -> Any:
            result = original(self, *args, **options)
            recorder = calls.recorder()
            if recorder is not None and self.is_enabled():
                calls.tell(recorder.updated, self)
            return result

        return update

    return replace(GradScaler, "update", make)
