"""DataLoader: batches as they are fetched, epochs as they begin and end."""

import functools
from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader

from gradkeeper.watcher.patches import Undo, replace
from gradkeeper.watcher.taps.call import Calls


def tap(calls: Calls) -> list[Undo]:
    iterator = dataloader._BaseDataLoaderIter
    return [replace(iterator, "__next__", functools.partial(_next, calls))]


def _next(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def fetch(self: Any) -> Any:
        recorder = calls.here.recorder or calls.recorder()
        if recorder is None:
            return original(self)
        try:
            batch = original(self)
        except StopIteration:
            calls.tell(recorder.fetched, self, None)
            raise
        except Exception:
            calls.tell(recorder.backwards.fault, torn=False)
            raise
        try:
            recorder.fetched(self, self._num_yielded)
        except Exception as error:
            calls.stop(error)
        return batch

    return fetch
