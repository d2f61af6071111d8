"""Notes that a rank leaves for the others in the store they met at.

A collective that waits for a rank in vain says only that it waited. Whoever fails or leaves writes
down why, and whoever waited reads it.
"""

import re
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from gradkeeper.torch_private import default_store

_LOST = re.compile(r"gloo|nccl|connection|timed? ?out|process ?group|broken pipe", re.IGNORECASE)


class News:
    def __init__(self) -> None:
        store = default_store()
        self.timeout: timedelta = store.timeout
        self._store: Any = dist.distributed_c10d.PrefixStore("gradkeeper", store)
        self._rank = dist.get_rank()
        self._size = dist.get_world_size()
        self._told_in: int | None = None

    def tell(self, what: str, window: int) -> None:
        """The first note of a window stays: what comes after follows from it."""
        if self._told_in == window:
            return
        self._told_in = window
        try:
            self._store.set(str(self._rank), what)
        except RuntimeError:  # the store went with rank 0; there is nobody to tell
            return

    def take_back(self, window: int) -> None:
        """All ranks met in this window: what was told in an earlier one, they have read."""
        if self._told_in is not None and self._told_in < window:
            self._told_in = None
            self._store.delete_key(str(self._rank))

    def of(self, rank: int) -> str | None:
        try:
            if not self._store.check([str(rank)]):
                return None
            told: bytes = self._store.get(str(rank))
        except RuntimeError:
            return None
        return told.decode()

    def why(self, error: BaseException) -> str:
        """A message for a collective that failed."""
        others = (rank for rank in range(self._size) if rank != self._rank)
        notes = [f"rank {rank} {note}" for rank in others if (note := self.of(rank))]
        known = "; ".join(notes) or "another rank ended, or did not come within the timeout"
        return f"the ranks lost each other: {known}. Rank {self._rank} waited and got: {error}"


def is_lost(error: BaseException) -> bool:
    """Whether a collective failed: torch raises a plain RuntimeError with the backend's words."""
    return isinstance(error, RuntimeError) and _LOST.search(str(error)) is not None
