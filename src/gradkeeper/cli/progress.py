"""A bar for commands that take a while: on a terminal only, and gone when they are done."""

import time
from types import TracebackType
from typing import TextIO, TypeVar

T = TypeVar("T")

LARGE = 100
"""Fewer files are checked before a bar could be read."""
WIDTH = 30
PAUSE = 0.1
CLEAR = "\r\x1b[K"


class Progress:
    def __init__(self, total: int, stream: TextIO, *, wanted: bool = True) -> None:
        self._total = total
        self._stream = stream
        self._shown = wanted and total >= LARGE and stream.isatty()
        self._done = 0
        self._next = 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._stream.write(CLEAR)
            self._stream.flush()

    def one(self, result: T) -> T:
        """Counts one more result, and hands it on."""
        self._done += 1
        if self._shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + PAUSE
            self._draw()
        return result

    def _draw(self) -> None:
        full = WIDTH * self._done // self._total
        bar = "█" * full + "░" * (WIDTH - full)
        try:
            self._stream.write(f"{CLEAR}checking {bar} {self._done}/{self._total} files")
        except UnicodeEncodeError:  # a terminal that knows ASCII only
            self._stream.write(f"{CLEAR}checking {self._done}/{self._total} files")
        self._stream.flush()
