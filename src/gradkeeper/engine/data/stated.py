"""A loader that knows its own place: torchdata's StatefulDataLoader, or anything alike."""

from collections.abc import Iterable, Iterator
from typing import Any

from gradkeeper.engine.data.digest import digest_of
from gradkeeper.engine.data.epochs import numbers, set_numbers
from gradkeeper.engine.data.handing import Count, Handing, count_of
from gradkeeper.engine.data.shape import length_of, shape_of
from gradkeeper.engine.errors import PositionError


class StatedFeed:
    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader: Any = loader
        self._count = Count(ended=True)
        self._source: Iterator[Any] = iter(())

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
        self._source = iter(self._loader)
        return Handing(self._count, self._take)

    def state(self) -> dict[str, Any]:
        state = self._loader.state_dict()
        digest, epochs = digest_of(state), numbers(self._loader)
        return {**self._count.state(), "digest": digest, "loader": state, "epochs": epochs}

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        raise PositionError(
            f"{type(self._loader).__qualname__} keeps its own place, which is that of one rank "
            "among another number of them: go on with as many ranks as there were"
        )

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        self._count = count_of(state)
        set_numbers(self._loader, state["epochs"])
        # Before `iter`: StatefulDataLoader reads it there and nowhere else.
        self._loader.load_state_dict(state["loader"])
        if not self._count.ended:
            self._source = iter(self._loader)
        return Handing(self._count, self._take)

    def release(self) -> None:
        self._source = iter(())

    def _take(self) -> Any:
        return next(self._source)
