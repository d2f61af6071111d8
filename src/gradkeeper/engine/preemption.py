"""SIGTERM and SIGUSR1: one handler for the process, which tells every engine that wants to know.

The second signal ends the process at once. A launcher that signals a group and its members sends
two in a row: those within a moment count as one.
"""

import atexit
import mmap
import os
import signal
import threading
import time
import weakref
from types import FrameType
from typing import Any, Protocol

from torch.utils.data import get_worker_info

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name))
EXIT_CODE = 143
MOMENT = 0.25
WHILE = 60
REMINDER = 0.01
ENGINE = __name__.rpartition(".")[0]


class Listener(Protocol):
    def preempt(self) -> bool:
        """Whether the process may end at once; otherwise the listener ends it, having saved.

        Called in the main thread, between any two instructions of it.
        """


_listeners: "weakref.WeakSet[Any]" = weakref.WeakSet()
_before: dict[int, Any] = {}
"""Whose handlers ours took the place of."""
_ending = mmap.mmap(-1, 1)
"""Shared with forks: not 0 once the process that saves is on its way out, and wants them gone."""
_home = 0
_first: float | None = None
"""When the first signal came."""
_leaving = False
"""Whether all is saved, and the process is to end as soon as the engine's own code is left."""


def listen(listener: Listener) -> None:
    """As long as the listener lives. Python takes signals in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        return
    _listeners.add(listener)
    weakref.finalize(listener, _leave).atexit = False
    _install()


def _install() -> None:
    global _home, _first
    if _home != os.getpid():
        _home, _first = os.getpid(), None
        # Before multiprocessing's own, which signals workers and waits for them.
        atexit.register(_end)
    for number in SIGNALS:
        there = signal.getsignal(number)
        if there is not _handle:
            _before[number] = there
            signal.signal(number, _handle)


def _end() -> None:
    _ending[0] = 1


def _leave() -> None:
    """With its last listener goes the handler, unless somebody has put another in its place."""
    if _listeners or _leaving or threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        if signal.getsignal(number) is _handle:
            _put_back(number)


def _put_back(number: int) -> None:
    # None: it was set from outside Python, and cannot be put back from here.
    signal.signal(number, _before.pop(number, None) or signal.SIG_DFL)


def _handle(number: int, frame: FrameType | None) -> None:
    global _first
    if os.getpid() != _home:
        _pass_on_in_child(number)
        return
    if _leaving:
        _leave_from(frame)
        return
    if not _listeners:
        _pass_on(number)
        return
    now = time.monotonic()
    if _first is not None:
        if now - _first > MOMENT:
            os._exit(EXIT_CODE)
        return
    _first = now
    # Each is told: one that has nothing to save must not end another's window.
    done = [listener.preempt() for listener in list(_listeners)]
    if all(done):
        leave_process()


def leave_process() -> None:
    """After the save: the handlers that were there before have their turn, then all is left."""
    for there in {
        id(handler): handler for handler in _before.values() if callable(handler)
    }.values():
        there(signal.SIGTERM, None)
    raise SystemExit(EXIT_CODE)


def leave_soon() -> None:
    """From a generator that is being closed, which swallows SystemExit: raised once it is."""
    global _leaving
    _leaving = True
    threading.Thread(target=_remind, daemon=True).start()


def _leave_from(frame: FrameType | None) -> None:
    global _leaving
    if _is_in_engine(frame):
        leave_soon()
        return
    _leaving = False
    leave_process()


def _remind() -> None:
    time.sleep(REMINDER)
    # Whoever has put another handler there since ends the process in a way of his own.
    if signal.getsignal(signal.SIGTERM) is _handle:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _is_in_engine(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(ENGINE):
            return True
        frame = frame.f_back
    return False


def _pass_on(number: int) -> None:
    _put_back(number)
    os.kill(os.getpid(), number)


def protect_worker() -> None:
    """In a loader's worker that was forked: whoever signals all processes must not end it.

    The engine still needs its batches, until its next boundary; a worker that dies raises there.
    """
    if os.getpid() != _home and signal.getsignal(signal.SIGTERM) is _handle:
        # Again, because torch has put a handler of its own there, in C.
        signal.signal(signal.SIGTERM, _handle)


def _pass_on_in_child(number: int) -> None:
    """A fork inherits the handler, but has nothing to save. A loader's worker serves a while."""
    if get_worker_info() is None:
        _pass_on(number)
    elif _ending[0]:
        os._exit(0)
    else:
        signal.alarm(WHILE)
