"""Saves that are written behind: training waits for one copy in memory, not for the disk."""

import traceback
import warnings
import weakref
from collections.abc import Mapping
from copy import deepcopy
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gradkeeper.checkpoint.checkpoint import Snapshot, snapshot_of
from gradkeeper.checkpoint.codec import encode_plain
from gradkeeper.checkpoint.errors import CheckpointWarning, WriteError
from gradkeeper.checkpoint.storage import Background
from gradkeeper.checkpoint.store import Store

if TYPE_CHECKING:
    import torch


class WriteBehind:
    """Writes in a thread, one save at a time; the next one waits for the last.

    The copy's memory is kept for the next save: touching fresh memory takes longer than copying.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.last: str | None = None
        """The name of the last save that is known to be durable."""
        self._writing = Background("gradkeeper-save")
        self._untold: list[BaseException] = []
        self._memory: torch.Tensor | None = None
        self._closed = False
        # When it is dropped, or Python ends, and nobody has asked: close() is the better way.
        weakref.finalize(self, _tell, self._untold)

    def save(self, state: Any, *, facts: Mapping[str, Any] | None = None) -> None:
        """Returns when the state is copied. If the save before failed, that is raised then: this
        one is being written all the same."""
        self._check_open()
        self.settle()
        facts = deepcopy(dict(facts or {}))
        encode_plain(facts, root="facts")  # refused here, at the caller's line
        snapshot = self._copied(snapshot_of(state))
        failure = self.take_failure()
        self._writing.run(lambda: self._write(snapshot, facts))
        if failure is not None:
            raise failure

    def save_now(self, state: Any, *, facts: Mapping[str, Any] | None = None) -> str:
        """Durable on return.

        An earlier failure is raised only after that: whoever is about to be killed needs this one.
        """
        self._check_open()
        self.settle()
        self.last = self.store.save(state, facts=facts)
        self._raise_failure()
        return self.last

    def wait(self) -> None:
        """Until the last save is durable; raises if it failed."""
        self.settle()
        self._raise_failure()

    def settle(self) -> None:
        """Until nothing is being written; what failed is told at the next call."""
        self._writing.join()

    def take_failure(self) -> WriteError | None:
        """Of a save that was written behind, if nobody was told: whoever takes it tells."""
        if not self._untold:
            return None
        failure = self._untold.pop()
        if isinstance(failure, WriteError):
            return failure
        told = WriteError(f"{self.store.folder}: a save behind failed: {failure!r}")
        told.__cause__ = failure
        return told

    def close(self) -> None:
        """Waits, gives the memory back, and raises what nobody was told yet."""
        self._closed = True
        self._writing.join()
        self._memory = None
        self._raise_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _copied(self, snapshot: Snapshot) -> Snapshot:
        import torch

        if self._memory is None or self._memory.numel() < snapshot.size:
            self._memory = None  # before the new one is taken: one extra copy, never two
            self._memory = torch.empty(snapshot.size, dtype=torch.uint8, device="cpu")
        return snapshot.copied_to(self._memory)

    def _write(self, snapshot: Snapshot, facts: Mapping[str, Any]) -> None:
        try:
            self.last = self.store.write(snapshot, facts)
        except BaseException as error:
            self._untold.append(_released(error))

    def _raise_failure(self) -> None:
        failure = self.take_failure()
        if failure is not None:
            raise failure

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("this writer is closed")


def _released(error: BaseException) -> BaseException:
    """Without its traceback, whose frames would hold the copy and the writer; its text stays."""
    if not isinstance(error, WriteError):
        lines = "".join(traceback.format_tb(error.__traceback__))
        error.add_note(f"in the thread that writes:\n{lines}")
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def _tell(failures: list[BaseException]) -> None:
    for failure in failures:
        message = f"the last save failed, and nobody asked: {failure}"
        warnings.warn(message, CheckpointWarning, stacklevel=1)
