"""How a tap speaks to the recorder: of the calling thread, and never at the user's expense."""

import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from gradkeeper.model import Finding
from gradkeeper.torch_private import keep_from_compiler
from gradkeeper.watcher.recorder import Recorder


class FindingError(Exception):
    """What `on_finding="raise"` raises, at the user's line; `finding` says what was found there."""

    def __init__(self, finding: Finding) -> None:
        said = [f"{finding.site} {finding.rule} {finding.name}: {finding.message}"]
        said += [finding.detail] if finding.detail else []
        said += [f"remedy: {finding.remedy}"] if finding.remedy else []
        super().__init__("\n   ".join(said))
        self.finding = finding


# The name under which it is imported and caught, for tracebacks.
FindingError.__module__ = "gradkeeper"


class Here(threading.local):
    """What one thread knows of the watch."""

    recorder: Recorder | None = None
    """Whom to tell, right now: where time counts, taps ask for it before they ask `Calls`."""
    own: Recorder | None = None
    quiet = 0

    def __init__(self, everywhere: "list[dict[str, Any]]") -> None:
        """Called in each thread; `everywhere` takes what each of them knows."""
        everywhere.append(vars(self))


class Calls:
    """Finds the recorder of the calling thread."""

    def __init__(self, make: Callable[[], Recorder]) -> None:
        self._make = make
        self._everywhere: list[dict[str, Any]] = []
        self.here = Here(self._everywhere)
        self._open = True
        _silence_children(self)

    @keep_from_compiler
    def recorder(self) -> Recorder | None:
        """None where nothing is to be told: in a worker process, inside another call, and after
        the watch, for whoever kept one of the taps."""
        here = self.here
        if here.recorder is None and not here.quiet and self._open:
            here.recorder = here.own = self._make()
        return here.recorder

    def end(self) -> None:
        """In all threads."""
        self._open = False
        for known in list(self._everywhere):
            known["recorder"] = known["own"] = None

    def begin(self) -> None:
        """A watch may be entered again."""
        self._open = True

    def quietly(self) -> "Quiet":
        """What is called inside this is part of what was told already."""
        return Quiet(self.here)

    @keep_from_compiler
    def tell(self, what: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls a method of a recorder. A fault of ours ends the watch, not the training."""
        try:
            return what(*args, **options)
        except Exception as error:
            self.stop(error)
            return None

    @keep_from_compiler
    def stop(self, fault: Exception) -> None:
        """Ends the watch by a fault of ours, which is being handled; a finding goes on up."""
        if isinstance(fault, FindingError):
            raise fault
        self.end()
        if os.environ.get("GRADKEEPER_DEBUG"):
            raise fault
        warnings.warn(
            f"gradkeeper stops watching, by a fault of its own: {fault!r}",
            RuntimeWarning,
            stacklevel=5,
        )


class Quiet:
    @keep_from_compiler
    def __init__(self, here: Here) -> None:
        self._here = here

    @keep_from_compiler
    def __enter__(self) -> None:
        self._here.quiet += 1
        self._here.recorder = None

    @keep_from_compiler
    def __exit__(self, *_: object) -> None:
        self._here.quiet -= 1
        if not self._here.quiet:
            self._here.recorder = self._here.own


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
