"""How a tap speaks to the keeper: of the calling thread, and never at the user's expense."""

import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from gradkeeper.watcher.finding_error import FindingError
from gradkeeper.watcher.keeper import Keeper


class Calls:
    """Finds the keeper of the calling thread."""

    def __init__(self, make: Callable[[], Keeper | None]) -> None:
        self._make = make
        self._local = threading.local()
        self._broken = False
        _silence_children(self)

    def keeper(self) -> Keeper | None:
        """None where nothing is to be told: in a worker process, or inside another call."""
        if self._broken:
            return None
        local = self._local
        try:
            return None if local.quiet else local.keeper
        except AttributeError:
            local.quiet = getattr(local, "quiet", 0)
            local.keeper = self._make()
            return None if local.quiet else local.keeper

    def end(self) -> None:
        self._broken = True

    def quietly(self) -> "Quiet":
        """What is called inside this is part of what was told already."""
        return Quiet(self._local)

    def tell(self, what: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls a method of a keeper. A fault of ours ends the watch, not the training."""
        try:
            return what(*args, **options)
        except FindingError:
            raise
        except Exception as error:
            self.stop(error)
            return None

    def stop(self, fault: Exception) -> None:
        """Ends the watch by a fault of ours, which is being handled."""
        self._broken = True
        if os.environ.get("GRADKEEPER_DEBUG"):
            raise fault
        warnings.warn(
            f"gradkeeper stops watching, by a fault of its own: {fault!r}",
            RuntimeWarning,
            stacklevel=5,
        )


class Quiet:
    def __init__(self, local: Any) -> None:
        self._local = local

    def __enter__(self) -> None:
        self._local.quiet = getattr(self._local, "quiet", 0) + 1

    def __exit__(self, *_: object) -> None:
        self._local.quiet -= 1


_watching: weakref.WeakSet[Calls] = weakref.WeakSet()
_prepared = False


def _silence_children(calls: Calls) -> None:
    """A forked process (a loader's worker) is not watched. What is registered stays for good, so
    it is done once."""
    global _prepared
    _watching.add(calls)
    if not _prepared and hasattr(os, "register_at_fork"):
        _prepared = True
        os.register_at_fork(after_in_child=_end_all)


def _end_all() -> None:
    for calls in list(_watching):
        calls.end()
