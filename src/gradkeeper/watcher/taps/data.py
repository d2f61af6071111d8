"""DataLoader: batches as they are fetched, epochs as they begin and end, and where to go on."""

import functools
from collections.abc import Callable
from typing import Any

from gradkeeper.torch_private import LOADER_ITERATOR
from gradkeeper.watcher.patches import Undo, Undoing, replace
from gradkeeper.watcher.taps.call import Calls


def tap(calls: Calls) -> list[Undo]:
    stateful = Undoing()
    return [
        stateful.undo,
        replace(LOADER_ITERATOR, "__init__", functools.partial(_init, calls, stateful)),
        replace(LOADER_ITERATOR, "__next__", functools.partial(_next, calls)),
    ]


def _init(calls: Calls, stateful: Undoing, original: Callable[..., Any]) -> Callable[..., Any]:
    """Loaders that keep their place are torchdata's; they are tapped when one is first used, for
    the program may import them late."""
    tapped: set[type] = set()

    @functools.wraps(original)
    def init(self: Any, loader: Any) -> None:
        original(self, loader)
        recorder = calls.recorder()
        if recorder is None or not hasattr(loader, "next_iter_state"):
            return
        calls.tell(recorder.loader_states.iterates, self, loader)
        kind = type(loader)
        if kind not in tapped:
            tapped.add(kind)
            stateful.add(replace(kind, "load_state_dict", functools.partial(_load, calls)))

    return init


def _load(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load_state_dict(self: Any, state_dict: Any) -> None:
        recorder = calls.recorder()
        original(self, state_dict)
        if recorder is not None and self.next_iter_state is not None:
            calls.tell(recorder.resumed, self)

    return load_state_dict


def _next(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def fetch(self: Any) -> Any:
        recorder = calls.here.recorder or calls.recorder()
        if recorder is None:
            return original(self)
        try:
            batch = original(self)
        except StopIteration:
            calls.tell(recorder.read_out, self)
            raise
        except Exception:
            calls.tell(recorder.backwards.fault, torn=False)
            raise
        try:
            recorder.fetched(self)
        except Exception as error:
            calls.stop(error)
        return batch

    return fetch
