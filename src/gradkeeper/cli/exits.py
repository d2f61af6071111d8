"""Every way out of a watched script but SIGKILL passes by here: what was seen is written first.

The script keeps its own handlers, and sees the default ones where it has none.
"""

import _thread
import functools
import os
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import gradkeeper
from gradkeeper.model import Finding

SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU")
    if hasattr(signal, name)
)
"""Those that end a process which does not handle them; Ctrl-C is an exception already."""
OURS = tuple(
    os.path.join(os.path.dirname(gradkeeper.__file__), folder, "")
    for folder in ("watcher", "model", "rules")
)
"""What runs there when a signal comes may be in the middle of an entry."""
PYTHONS = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
SITE_PACKAGES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
MOMENT = 0.001
"""Seconds until a signal that came in the middle of an entry is sent again."""
MOST_MOMENTS = 1000
LEAVING = ("_exit", "abort", "execv", "execve")
"""Functions of `os` that do not come back; the other ways to `exec` go through these two."""
PATIENCE = 10.0
"""Seconds for the main thread to answer a signal, which it may never do inside a call of C."""


@dataclass(frozen=True)
class Ending:
    """How a script ended. `how` completes "the script ...", or is empty where it ended well."""

    code: int
    how: str = ""
    hurried: bool = False
    """By a signal: whoever sent it will not wait for long."""
    raised: Finding | None = None
    """What was raised at the script's line, and ended it."""


Finish = Callable[[Ending], int | None]
"""Writes what was seen; the exit code, or None if that is under way already."""


@contextmanager
def guarded(finish: Finish) -> Iterator[None]:
    """Whatever would end the process inside the block comes to `finish` first."""
    guard = _Guard(finish)
    guard.place()
    try:
        yield
    finally:
        guard.remove()


class _Guard:
    def __init__(self, finish: Finish) -> None:
        self._finish = finish
        self._process = os.getpid()
        self._answered = threading.Event()
        self._delays = 0
        """So often in a row, a signal came in the middle of an entry."""
        self._undo: list[Callable[[], object]] = []
        # What is left in their place here must not be called by us.
        self._set, self._get, self._exit = signal.signal, signal.getsignal, os._exit

    def place(self) -> None:
        for name in LEAVING:
            if hasattr(os, name):
                self._replace(os, name, self._before_leaving(getattr(os, name)))
        if threading.current_thread() is not threading.main_thread():
            return  # only that one may handle signals
        for number in SIGNALS:
            if self._get(number) is signal.SIG_DFL:
                self._set(number, self._on_signal)
                self._undo.append(functools.partial(self._give_back, number, signal.SIG_DFL))
        if self._get(signal.SIGINT) is signal.default_int_handler:
            self._set(signal.SIGINT, self._on_interrupt)
            self._undo.append(
                functools.partial(self._give_back, signal.SIGINT, signal.default_int_handler)
            )
        self._replace(signal, "signal", self._signal)
        self._replace(signal, "getsignal", self._getsignal)
        if os.name == "posix":
            self._listen()
            self._prepare_forks()

    def _prepare_forks(self) -> None:
        """A forked child is nobody we watch: it gets the default handlers back. A signal that comes
        in between would be lost, so it waits until they are in place."""
        held = threading.local()

        def before() -> None:
            held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS if self._undo else ())

        def after() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, held.mask)

        def in_child() -> None:
            self.remove()
            after()

        os.register_at_fork(before=before, after_in_parent=after, after_in_child=in_child)

    def remove(self) -> None:
        """At the end, and in a forked child."""
        while self._undo:
            self._undo.pop()()

    def _replace(self, module: Any, name: str, new: Any) -> None:
        old = getattr(module, name)
        setattr(module, name, new)
        self._undo.append(lambda: setattr(module, name, old))

    # Signals

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._answered.set()
        if not self._comes_too_soon(number, frame):
            self._leave(number)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._comes_too_soon(number, frame):
            signal.default_int_handler(number, frame)

    def _comes_too_soon(self, number: int, frame: FrameType | None) -> bool:
        """In the middle of an entry: it is sent again in a moment, when that is written."""
        if not _is_ours(frame) or self._delays >= MOST_MOMENTS:
            self._delays = 0
            return False
        self._delays += 1
        _thread.start_new_thread(_send_again, (number,))
        return True

    def _leave(self, number: int) -> None:
        ending = Ending(128 + number, f"was ended by {signal.Signals(number).name}", hurried=True)
        with suppress(Exception):  # whatever goes wrong now, the signal is obeyed
            if self._finish(ending) is None:
                return  # the script is at its end: what is being written goes on
        for stream in (sys.__stdout__, sys.__stderr__):
            with suppress(Exception):
                if stream is not None:
                    stream.flush()
        self._exit(ending.code)

    def _give_back(self, number: int, handler: Any) -> None:
        with suppress(ValueError):  # in a thread
            if self._get(number) in (self._on_signal, self._on_interrupt):
                self._set(number, handler)

    def _signal(self, number: int, handler: Any) -> Any:
        """`signal.signal`, in which our handlers are the default ones."""
        if handler == signal.SIG_DFL and number in SIGNALS:  # the number 0, too
            handler = self._on_signal
        if handler is signal.default_int_handler and number == signal.SIGINT:
            handler = self._on_interrupt
        return self._shown(self._set(number, handler))

    def _getsignal(self, number: int) -> Any:
        return self._shown(self._get(number))

    def _shown(self, handler: Any) -> Any:
        if handler == self._on_interrupt:
            return signal.default_int_handler
        return signal.SIG_DFL if handler == self._on_signal else handler

    # A main thread that does not answer

    def _listen(self) -> None:
        """Python's handlers wait for the main thread. One that hangs in a collective would make
        the process deaf, which it was not before: then another thread answers."""
        heard, told = os.pipe()
        os.set_blocking(told, False)
        before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)

        def undo() -> None:
            with suppress(ValueError):  # in a thread
                now = signal.set_wakeup_fd(before)
                if now != told:
                    signal.set_wakeup_fd(now)  # the script's own
            os.close(told)  # which ends the thread

        self._undo.append(undo)
        threading.Thread(target=self._hear, args=(heard,), daemon=True).start()

    def _hear(self, heard: int) -> None:
        while numbers := os.read(heard, 64):
            for number in numbers:
                if self._getsignal(number) is not self._get(number):  # ours
                    if not self._answered.wait(PATIENCE) and os.getpid() == self._process:
                        self._leave(number)
        os.close(heard)

    # Calls that do not come back

    def _before_leaving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        name = original.__name__

        @functools.wraps(original)
        def leave(*args: Any) -> Any:
            if os.getpid() != self._process:
                return original(*args)
            code = args[0] if name == "_exit" and args else 0
            finished = None
            with suppress(Exception):  # as above
                finished = self._finish(Ending(code, f"called os.{name}()" if code else ""))
            return original(finished) if name == "_exit" and finished else original(*args)

        return leave


def _is_ours(frame: FrameType | None) -> bool:
    """What runs is the watcher, or Python's own library on its behalf."""
    while frame is not None and _is_pythons(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(OURS)


def _is_pythons(path: str) -> bool:
    """Or a handler's here, which another signal has interrupted."""
    if path.startswith((*SITE_PACKAGES, *OURS)):
        return False
    return path == __file__ or path.startswith(("<frozen", *PYTHONS))


def _send_again(number: int) -> None:
    time.sleep(MOMENT)
    if hasattr(signal, "pthread_kill"):
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, number)  # which also wakes it from a sleep
        return
    _thread.interrupt_main(signal.Signals(number))
