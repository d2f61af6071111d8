"""Checksums of a file as it passes: one CRC-32 for each piece of it, so that damage has a place.

Not SHA-256: for 400 MB that takes 0.25 s of the processor, even by its own instructions, and this
0.09 s. In a thread of its own, beside the write: in the same one, saves took a third longer.
"""

import threading
import zlib
from queue import Queue
from types import TracebackType
from typing import Self

Chunk = bytes | bytearray | memoryview
PIECE = 8 * 2**20
LARGE = 2**20  # less is not worth a thread
BACKLOG = 16  # chunks: memory that was copied for the file is held no longer than that


class Checksum:
    """A chunk must stay as it is until the checksums have been asked for."""

    def __init__(self) -> None:
        self.size = 0
        self._sum = _Sum()
        self._queue: Queue[Chunk | None] = Queue(BACKLOG)
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finish()

    def update(self, chunk: Chunk) -> None:
        self.size += len(chunk)
        if self._thread is None and len(chunk) >= LARGE:
            self._thread = self._started()
        if self._thread is None:
            self._sum.add(chunk)
        else:
            self._queue.put(chunk)

    def pieces(self) -> tuple[str, ...]:
        self._finish()
        return self._sum.pieces()

    def _started(self) -> threading.Thread | None:
        thread = threading.Thread(target=self._work, name="gradkeeper-checksum", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # Python is ending, and starts no more threads
            return None
        return thread

    def _work(self) -> None:
        while True:
            chunk = self._queue.get()
            if chunk is None:
                return
            self._sum.add(chunk)

    def _finish(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None


class _Sum:
    def __init__(self) -> None:
        self._size = 0
        self._done: list[int] = []
        self._open = 0

    def add(self, chunk: Chunk) -> None:
        rest = memoryview(chunk)
        while rest:
            part = rest[: PIECE - self._size % PIECE]
            self._open = zlib.crc32(part, self._open)
            self._size += len(part)
            if self._size % PIECE == 0:
                self._done.append(self._open)
                self._open = 0
            rest = rest[len(part) :]

    def pieces(self) -> tuple[str, ...]:
        done = self._done + ([self._open] if self._size % PIECE else [])
        return tuple(f"{crc:08x}" for crc in done)
