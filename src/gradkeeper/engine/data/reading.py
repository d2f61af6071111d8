"""Anything else that can be iterated: its place is found by reading up to it, if that is wanted."""

from collections.abc import Iterable, Iterator
from typing import Any

from gradkeeper.engine.data.digest import digest_of
from gradkeeper.engine.data.epochs import numbers, set_numbers
from gradkeeper.engine.data.handing import Count, Handing, count_of
from gradkeeper.engine.data.plain import given, kept
from gradkeeper.engine.data.replay import NO_CALLS, Replay
from gradkeeper.engine.data.shape import length_of, shape_of
from gradkeeper.engine.data.sources import Sources
from gradkeeper.engine.data.telling import reading_again
from gradkeeper.engine.errors import PositionError


class ReadFeed:
    def __init__(self, loader: Iterable[Any], *, refusal: str = "") -> None:
        self._loader: Any = loader
        self._refusal = refusal
        self._count = Count(ended=True)
        # Workers that stay carry their random numbers on from epoch to epoch, and only reading it
        # all again brings new ones there.
        self._whole = bool(getattr(loader, "persistent_workers", False))
        self._source: Iterator[Any] = iter(())
        self._history: list[int] = []
        """How often a batch was asked for, by epoch."""
        self._sources = Sources({"loader": loader})
        self._replay = Replay(self._sources)
        self._begun = self._sources.read()

    @property
    def length(self) -> int | None:
        return length_of(self._loader)

    @property
    def shape(self) -> dict[str, Any]:
        return shape_of(self._loader)

    def check(self) -> None:
        if self._refusal:
            raise PositionError(self._refusal)

    def begin(self, epoch: int) -> Iterator[Any]:
        if not (self._whole and self._history):
            self._sources = Sources({"loader": self._loader})
            self._replay = Replay(self._sources)
            self._begun = self._sources.read()
            self._history = []
        self._count = Count(epoch)
        self._start()
        return Handing(self._count, self._take)

    def state(self) -> dict[str, Any]:
        self.check()
        self._sources.look_again()
        return {
            **self._count.state(),
            "digest": digest_of([self._count.state(), self._begun]),
            "begun": kept(self._begun),
            "epochs": numbers(self._loader),
            "history": list(self._history),
            "replay": self._replay.state(),
            "generators": kept(self._sources.read_own()),
        }

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        history = [batch + state["ended"]]
        return state | {"batch": batch, "history": history, "replay": NO_CALLS}

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        self.check()
        self._count = count_of(state)
        self._begun = given(state["begun"])
        set_numbers(self._loader, state["epochs"])
        self._sources.write(self._begun)
        self._replay = Replay(self._sources)
        self._replay.load(state["replay"])
        self._history = []
        self._read_again(state["history"])
        self._sources.write(given(state["generators"]))
        return Handing(self._count, self._take)

    def release(self) -> None:
        self._source = iter(())

    def _start(self) -> None:
        self._history.append(0)
        self._source = self._replay.call(lambda: iter(self._loader))

    def _take(self) -> Any:
        self._history[-1] += 1
        return self._replay.call(self._source.__next__)

    def _read_again(self, history: list[int]) -> None:
        found = 0
        with reading_again(self._loader, sum(history)) as told:
            for asked in history:
                self._start()
                found = 0
                for _ in range(asked):
                    found += self._pass_over()
                    told()
        if found != self._count.batch:
            raise PositionError(
                f"{type(self._loader).__qualname__} gives {found} batches where it gave "
                f"{self._count.batch} before the save: it must give the same ones again"
            )

    def _pass_over(self) -> bool:
        try:
            self._take()
        except StopIteration:
            return False
        except Exception:
            return True  # as before the save, and counted as it was there
        return True
