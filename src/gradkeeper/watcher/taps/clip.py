"""torch.nn.utils.clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import utils

from gradkeeper.watcher.patches import Undo, replace_everywhere
from gradkeeper.watcher.taps.call import Calls

BOUNDS = {
    "clip_grad_norm_": "max_norm",
    "clip_grad_value_": "clip_value",
    "clip_grads_with_norm_": "max_norm",
}


def tap(calls: Calls) -> list[Undo]:
    return [
        replace_everywhere(utils, name, functools.partial(_clip, calls, name), traceable=True)
        for name in BOUNDS
        if hasattr(utils, name)
    ]


def _clip(calls: Calls, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def clip(*args: Any, **options: Any) -> Any:
        recorder = None if torch.compiler.is_compiling() else calls.recorder()
        parameters = _argument(args, options, 0, "parameters")
        if recorder is None or parameters is None:
            return original(*args, **options)
        used_up = isinstance(parameters, Iterator)
        several = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if used_up and not several:
            calls.tell(recorder.exhausted, name)
            return original(*args, **options)  # torch warns of an empty generator itself
        if args:
            args = (several, *args[1:])
        else:
            options["parameters"] = several
        calls.tell(recorder.clips, several)
        try:
            with calls.quietly():
                result = original(*args, **options)
        except RuntimeError:
            # clip_grad_value_ does so in words that name no gradient (torch 2.13).
            if several and all(parameter.grad is None for parameter in several):
                calls.tell(recorder.clip_refused, several)
            raise
        norm = result if result is not None else _argument(args, options, 2, "total_norm")
        bound = _argument(args, options, 1, BOUNDS[name])
        calls.tell(recorder.clipped, several, _bound(bound), norm)
        return result

    return clip


def _argument(args: tuple[Any, ...], options: dict[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else options.get(name)


def _bound(bound: Any) -> float | None:
    if isinstance(bound, (int, float)):
        return float(bound)
    return None
