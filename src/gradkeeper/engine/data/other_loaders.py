"""Loaders that know their own place, lists of batches, and anything else that can be iterated; and
which feed fits a loader.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from gradkeeper.engine.data.feed import BatchCount, Feed, Handing, count_of, given, kept
from gradkeeper.engine.data.generators import RandomSources
from gradkeeper.engine.data.map_style import SampledFeed
from gradkeeper.engine.data.replay import NO_CALLS, Replay
from gradkeeper.engine.data.samplers import is_stateful, numbers, set_numbers
from gradkeeper.engine.data.signature import fingerprint_of, length_of, signature_of
from gradkeeper.engine.errors import PositionError
from gradkeeper.torch_private import can_be_copied

# A loader that knows its own place: torchdata's StatefulDataLoader, or anything alike.


class StatedFeed:
    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader: Any = loader
        self._count = BatchCount(ended=True)
        self._source: Iterator[Any] = iter(())

    @property
    def length(self) -> int | None:
        return length_of(self._loader)

    @property
    def signature(self) -> dict[str, Any]:
        return signature_of(self._loader)

    def check(self) -> None:
        return

    def begin(self, epoch: int) -> Iterator[Any]:
        self._count = BatchCount(epoch)
        self._source = iter(self._loader)
        return Handing(self._count, self._take)

    def state(self) -> dict[str, Any]:
        state = self._loader.state_dict()
        digest, epochs = fingerprint_of(state), numbers(self._loader)
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


# A list of batches, or anything that is read by number: its place is a number.


BUILT_IN = (list, tuple, range)


def is_indexed(loader: Any) -> bool:
    """Whether a for loop over it reads loader[0], loader[1], and so on."""
    kind = type(loader)
    if kind in BUILT_IN:
        return True
    if not hasattr(kind, "__getitem__"):
        return False
    own = getattr(kind, "__iter__", None)
    return own is None or own in (Sequence.__iter__, *(kind.__iter__ for kind in BUILT_IN))


class IndexedFeed:
    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader: Any = loader
        self._count = BatchCount(ended=True)
        self._sources = RandomSources({"loader": loader})

    @property
    def length(self) -> int | None:
        return length_of(self._loader)

    @property
    def signature(self) -> dict[str, Any]:
        return signature_of(self._loader)

    def check(self) -> None:
        return

    def begin(self, epoch: int) -> Iterator[Any]:
        self._count = BatchCount(epoch)
        return self._from(0)

    def state(self) -> dict[str, Any]:
        self._sources.look_again()
        count, generators = self._count.state(), kept(self._sources.read_own())
        return {**count, "digest": fingerprint_of([count, generators]), "generators": generators}

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


# What a person sees while batches are read once more: a bar in a terminal, else one line.


@contextmanager
def reading_again(loader: Any, batches: int) -> Iterator[Callable[[], object]]:
    """Gives what is to be called after each batch."""
    text = (
        f"gradkeeper: reading {batches} batches of {type(loader).__name__} again to find the place"
    )
    if not batches or sys.stderr is None:
        yield lambda: None
    elif sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(total=batches, desc=text, unit="batch") as bar:
            yield bar.update
    else:
        print(text, file=sys.stderr, flush=True)
        yield lambda: None


# Anything else that can be iterated: its place is found by reading up to it, if that is wanted.


class ReadFeed:
    def __init__(self, loader: Iterable[Any], *, refusal: str = "") -> None:
        self._loader: Any = loader
        self._refusal = refusal
        self._count = BatchCount(ended=True)
        # Workers that stay carry their random numbers on from epoch to epoch, and only reading it
        # all again brings new ones there.
        self._whole = bool(getattr(loader, "persistent_workers", False))
        self._source: Iterator[Any] = iter(())
        self._history: list[int] = []
        """How often a batch was asked for, by epoch."""
        self._sources = RandomSources({"loader": loader})
        self._replay = Replay(self._sources)
        self._begun = self._sources.read()

    @property
    def length(self) -> int | None:
        return length_of(self._loader)

    @property
    def signature(self) -> dict[str, Any]:
        return signature_of(self._loader)

    def check(self) -> None:
        if self._refusal:
            raise PositionError(self._refusal)

    def begin(self, epoch: int) -> Iterator[Any]:
        if not (self._whole and self._history):
            self._sources = RandomSources({"loader": self._loader})
            self._replay = Replay(self._sources)
            self._begun = self._sources.read()
            self._history = []
        self._count = BatchCount(epoch)
        self._start()
        return Handing(self._count, self._take)

    def state(self) -> dict[str, Any]:
        self.check()
        self._sources.look_again()
        return {
            **self._count.state(),
            "digest": fingerprint_of([self._count.state(), self._begun]),
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


# Which feed fits a loader.


Unstated = Literal["read", "refuse"]
UNSTATED: Unstated = "read"


def feed_of(loader: Iterable[Any], *, unstated: Unstated = UNSTATED) -> Feed:
    """`unstated`: what to do with a loader that cannot say where it is."""
    if is_stateful(loader):
        return StatedFeed(loader)
    if can_be_copied(loader):
        return SampledFeed(loader)  # type: ignore[arg-type]
    if is_indexed(loader):
        return IndexedFeed(loader)
    return ReadFeed(loader, refusal=_refusal(loader, unstated))


def _refusal(loader: Any, unstated: Unstated) -> str:
    name = type(loader).__qualname__
    if isinstance(loader, Iterator):
        return (
            f"a {name} can be read once only, so a new process cannot find its place in it: pass a "
            "DataLoader, a list, or an object whose __iter__ starts anew"
        )
    if unstated == "refuse":
        return (
            f"the place in a {_what(loader)} can be found only by reading up to it: give it "
            'state_dict() and load_state_dict(), or allow reading with unstated="read"'
        )
    return ""


def _what(loader: Any) -> str:
    dataset = getattr(loader, "dataset", None)
    name = type(loader).__qualname__
    return name if dataset is None else f"{name} over {type(dataset).__qualname__}"
