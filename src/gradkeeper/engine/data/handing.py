"""Batches handed out one by one, and counted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Count:
    epoch: int = -1
    batch: int = 0
    """Batches of this epoch that are behind: handed out, or failed on."""
    ended: bool = False
    """The loader was asked once more, and had no more; or no epoch has begun."""

    def state(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "batch": self.batch, "ended": self.ended}


def count_of(state: dict[str, Any]) -> Count:
    return Count(state["epoch"], state["batch"], state["ended"])


class Handing(Iterator[Any]):
    """No generator: after a batch that failed, a loader goes on with the next one."""

    def __init__(self, count: Count, take: Callable[[], Any]) -> None:
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
