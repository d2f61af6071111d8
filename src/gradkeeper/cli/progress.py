"""A bar for commands that take a while: on a terminal only, and gone when they are done."""

import io
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TextIO, TypeVar

T = TypeVar("T")

LARGE = 100
"""Fewer files are checked before a bar could be read."""
WIDTH = 30
USUAL = 80
"""Columns of a terminal that does not tell."""
PAUSE = 0.1
CLEAR = "\r\x1b[K"


class CheckProgress:
    def __init__(
        self,
        total: int,
        stream: TextIO | None,
        *,
        wanted: bool = True,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._total = total
        self._stream = stream or io.StringIO()  # none where it was closed by the caller
        # A dumb terminal cannot take back what it has shown.
        terminal = self._stream.isatty() and environment.get("TERM") != "dumb"
        self._shown = wanted and total >= LARGE and terminal
        self._done = 0
        self._next = 0.0

    def __enter__(self) -> "CheckProgress":
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
        count = f"{self._done}/{self._total} files"
        full = WIDTH * self._done // self._total
        bar = "█" * full + "░" * (WIDTH - full)
        try:
            self._show(f"checking {bar} {count}", f"checking {count}")
        except UnicodeEncodeError:  # a terminal that knows ASCII only
            self._show(f"checking {count}")

    def _show(self, *lines: str) -> None:
        """The first of these that fits: what a terminal wraps, it never clears."""
        columns = width_of(self._stream)
        line = next((line for line in lines if len(line) < columns), "")
        self._stream.write(CLEAR + line)
        self._stream.flush()


def width_of(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL
    except OSError:
        return USUAL
