"""A list of batches, or anything that is read by number: its place is a number."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gradkeeper.engine.data.digest import digest_of
from gradkeeper.engine.data.handing import Count, Handing, count_of
from gradkeeper.engine.data.plain import given, kept
from gradkeeper.engine.data.shape import length_of, shape_of
from gradkeeper.engine.data.sources import Sources

BUILT_IN = (list, tuple, range)


def is_indexed(loader: Any) -> bool:
    """Whether a for loop over it reads loader[0], loader[1], and so on."""
    kind = type(loader)
    if kind in BUILT_IN:
        return True
    if not hasattr(kind, "__getitem__"):
        return False
    own = getattr(kind, "__iter__", None)
    return own is None or own in (Sequence.__iter__, *(one.__iter__ for one in BUILT_IN))


class IndexedFeed:
    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader: Any = loader
        self._count = Count(ended=True)
        self._sources = Sources({"loader": loader})

    @property
    def length(self) -> int | None:
        return length_of(self._loader)

    @property
    def shape(self) -> dict[str, Any]:
        return shape_of(self._loader)

    def check(self) -> None:
        return

    def begin(self, epoch: int) -> Iterator[Any]:
        self._count = Count(epoch)
        return self._from(0)

    def state(self) -> dict[str, Any]:
        self._sources.look_again()
        count, generators = self._count.state(), kept(self._sources.read_own())
        return {**count, "digest": digest_of([count, generators]), "generators": generators}

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        return state | {"batch": batch}

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        self._count = count_of(state)
        self._sources.write(given(state["generators"]))
        return self._from(self._count.batch)

    def release(self) -> None:
        return

    def _from(self, number: int) -> Iterator[Any]:
        return Handing(self._count, _numbered(self._loader, number).__next__)


def _numbered(batches: Any, number: int) -> Iterator[Any]:
    while True:
        try:
            batch = batches[number]
        except IndexError:
            return
        yield batch
        number += 1
