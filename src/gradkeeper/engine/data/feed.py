"""Where a run is in its loader, and how it gets there again in another process: what every kind of
loader's feed does, and what they share.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from gradkeeper.tree import with_leaves, with_tensors


class Feed(Protocol):
    """Batches of a loader, bit for bit those of a plain `for batch in loader`.

    One feed per loader and run: workers that stay from epoch to epoch are the feed's.
    """

    @property
    def length(self) -> int | None:
        """Batches in an epoch, where that is known."""

    @property
    def signature(self) -> dict[str, Any]:
        """What must be the same on resume; `difference` compares two."""

    def check(self) -> None:
        """PositionError if the position cannot be kept: better at the start than at a save."""

    def begin(self, epoch: int) -> Iterator[Any]:
        """What `iter(loader)` does."""

    def state(self) -> dict[str, Any]:
        """The position between two batches, in plain values: nothing is asked of the loader."""

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        """That position for another number of ranks: after `batch` batches of this rank's share."""

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        """The rest of that epoch, in a new process or the same.

        It draws random numbers: Python's, NumPy's and torch's generators are to be set to their
        state at the save after this call, and before the first batch.
        """

    def release(self) -> None:
        """The loop was left: its workers end, as they do after `break` from a plain loop.

        The position stays known.
        """


# Batches handed out one by one, and counted.


@dataclass(slots=True)
class BatchCount:
    epoch: int = -1
    batch: int = 0
    """Batches of this epoch that are behind: handed out, or failed on."""
    ended: bool = False
    """The loader was asked once more, and had no more; or no epoch has begun."""

    def state(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "batch": self.batch, "ended": self.ended}


def count_of(state: dict[str, Any]) -> BatchCount:
    return BatchCount(state["epoch"], state["batch"], state["ended"])


class Handing(Iterator[Any]):
    """No generator: after a batch that failed, a loader goes on with the next one."""

    def __init__(self, count: BatchCount, take: Callable[[], Any]) -> None:
        self._count = count
        self._take = take

    def __next__(self) -> Any:
        if self._count.ended:
            raise StopIteration
        try:
            batch = self._take()
        except StopIteration:
            self._count.ended = True
            raise
        except Exception:
            self._count.batch += 1
            raise
        self._count.batch += 1
        return batch


# Bytes as tensors, the form in which a checkpoint keeps them apart from its readable part.


def kept(value: Any) -> Any:
    return with_leaves(
        value, bytes, lambda held: torch.frombuffer(bytearray(held), dtype=torch.uint8)
    )


def given(value: Any) -> Any:
    """What was kept, as it was."""
    return with_tensors(value, lambda tensor: tensor.cpu().numpy().tobytes())
