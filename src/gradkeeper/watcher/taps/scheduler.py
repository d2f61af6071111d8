"""Schedulers' ticks: the outermost call only, and not the one a constructor makes."""

import functools
from collections.abc import Callable
from typing import Any

from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from gradkeeper.torch_private import FIRST_TICK
from gradkeeper.watcher.patches import Undo, replace
from gradkeeper.watcher.taps.call import Calls


def tap(calls: Calls) -> list[Undo]:
    stepping = [kind for kind in _family(LRScheduler) if "step" in vars(kind)]
    return [
        replace(LRScheduler, FIRST_TICK, functools.partial(_silent, calls)),
        *(replace(kind, "step", functools.partial(_step, calls)) for kind in stepping),
    ]


def _family(root: type) -> list[type]:
    found: dict[type, None] = {root: None}
    children: list[type] = root.__subclasses__()
    for child in children:
        found |= dict.fromkeys(_family(child))
    return list(found)


def _silent(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def initial(self: LRScheduler, *args: Any, **options: Any) -> Any:
        with calls.quietly():
            return original(self, *args, **options)

    return initial


def _step(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def step(self: LRScheduler, *args: Any, **options: Any) -> Any:
        recorder = calls.recorder()
        with calls.quietly():
            result = original(self, *args, **options)
        optimizer = getattr(self, "optimizer", None)
        if recorder is not None and optimizer is not None:
            metric = isinstance(self, ReduceLROnPlateau)
            calls.tell(recorder.ticked, self, optimizer, metric=metric)
        return result

    return step
