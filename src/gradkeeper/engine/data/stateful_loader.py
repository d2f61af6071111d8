"""A loader that knows its own place: torchdata's StatefulDataLoader, litdata's, MosaicML's, or
anything alike. And what its workers draw, which such a place leaves out.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from gradkeeper.engine.data.feed import BatchCount, Handing, count_of, given, kept
from gradkeeper.engine.data.fingerprint import fingerprint_of
from gradkeeper.engine.data.generators import RandomSources, Reading, changed
from gradkeeper.engine.data.known_loaders import (
    begins_anew_at_the_end,
    ends_twice,
    forget_start,
    state_of_loader,
)
from gradkeeper.engine.data.samplers import is_stateful, numbers, set_numbers
from gradkeeper.engine.data.signature import length_of, signature_of
from gradkeeper.engine.errors import PositionError
from gradkeeper.engine.preemption import protect_worker
from gradkeeper.torch_private import Undo, copied_loader, make_quietly, stateful_loader

# What is drawn in the workers. A StatefulDataLoader asks them for the state of the dataset: there
# it can travel along, in torchdata's own way.


class DrawnFrom:
    """Made in the process that draws."""

    def __init__(self, dataset: Any, collate: Any) -> None:
        self._roots = {"dataset": dataset, "collate_fn": collate}
        self._found: RandomSources | None = None

    def read(self) -> Reading:
        self._sources.look_again()
        return self._sources.read()

    def write(self, reading: Reading) -> None:
        self._sources.write(reading)

    @property
    def _sources(self) -> RandomSources:
        if self._found is None:
            self._found = RandomSources(self._roots)
        return self._found

    def __getstate__(self) -> dict[str, Any]:
        return {"_roots": self._roots, "_found": None}


def state_of(thing: Any) -> Any:
    return thing.state_dict() if is_stateful(thing) else None


class Items:
    """In place of a map-style dataset."""

    def __init__(self, dataset: Any, sources: DrawnFrom) -> None:
        self.dataset = dataset
        self._draws = sources
        if callable(getattr(dataset, "__getitems__", None)):
            self.__getitems__ = dataset.__getitems__

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[index]

    def state_dict(self) -> dict[str, Any]:
        return {"dataset": state_of(self.dataset), "draws": self._draws.read()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["dataset"] is not None:
            self.dataset.load_state_dict(state["dataset"])
        self._draws.write(state["draws"])


class StatedStream(IterableDataset[Any]):
    """In place of an iterable dataset. Its state is that of its iterators."""

    def __init__(self, dataset: Any, sources: DrawnFrom) -> None:
        self.dataset = dataset
        self.draws = sources

    def __iter__(self) -> Iterator[Any]:
        return StatedStreamIterator(self)


class StatedStreamIterator(Iterator[Any]):
    def __init__(self, stream: StatedStream) -> None:
        self._stream = stream
        self._ended = False
        """A dataset that starts anew at its end has the state of its begin then."""
        forget_start(stream.dataset)
        self._inner = iter(stream.dataset)

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        try:
            return next(self._inner)
        except StopIteration:
            self._ended = True
            raise

    def state_dict(self) -> dict[str, Any]:
        return {
            "dataset": state_of(self._stream.dataset),
            "iterator": None if self._inner is self._stream.dataset else state_of(self._inner),
            "ended": self._ended,
            "draws": self._stream.draws.read(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        dataset = self._stream.dataset
        self._ended = state["ended"]
        if state["dataset"] is not None:
            dataset.load_state_dict(state["dataset"])
            self._inner = iter(dataset)
        if state["iterator"] is not None:
            self._inner.load_state_dict(state["iterator"])
        self._stream.draws.write(state["draws"])


class Shown:
    """In place of worker_init_fn, which must see the user's dataset and not ours."""

    def __init__(self, init: Callable[[int], Any] | None) -> None:
        self._init = init

    def __call__(self, number: int) -> None:
        worker = get_worker_info()
        if worker is not None and isinstance(worker.dataset, Items | StatedStream):
            # It refuses to be assigned to in the usual way.
            object.__setattr__(worker, "dataset", worker.dataset.dataset)
        protect_worker()
        if self._init is not None:
            self._init(number)


def keeps_draws(loader: Any) -> bool:
    return type(loader) is stateful_loader()


def keeping_draws(loader: Any) -> Any:
    """A copy of a StatefulDataLoader."""
    sources = DrawnFrom(loader.dataset, loader.collate_fn)
    kind = StatedStream if isinstance(loader.dataset, IterableDataset) else Items
    return copied_loader(
        loader,
        dataset=kind(loader.dataset, sources),
        worker_init_fn=Shown(loader.worker_init_fn),
    )


# Of other loaders: whether their workers have drawn anything.


class DrawWatch:
    """In place of a loader's collate_fn, and of its worker_init_fn, while its workers start."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._told = torch.zeros(1, dtype=torch.uint8).share_memory_()

    @property
    def drawn(self) -> bool:
        return bool(self._told.item())

    def attach(self) -> Undo:
        loader = self._loader
        own = (loader.collate_fn, loader.worker_init_fn)
        noting = Noting(*own, self._told)
        loader.collate_fn, loader.worker_init_fn = noting, noting.begin

        def detach() -> None:
            loader.collate_fn, loader.worker_init_fn = own

        return detach


class Noting:
    """In a worker."""

    def __init__(self, collate: Any, init: Any, told: torch.Tensor) -> None:
        self._collate = collate
        self._init = init
        self._told = told
        self._sources: RandomSources | None = None
        self._last: Reading = {}

    def begin(self, number: int) -> None:
        if self._init is not None:
            self._init(number)
        worker = get_worker_info()
        assert worker is not None, "a worker calls it"
        self._sources = RandomSources({"dataset": worker.dataset, "collate_fn": self._collate})
        self._last = self._sources.read()

    def __call__(self, items: Any) -> Any:
        batch = self._collate(items)
        if self._sources is not None and not self._told.item():
            # Many make their generator on first use.
            self._sources.look_again()
            now = self._sources.read()
            if changed(now, self._last):
                self._told.fill_(1)
        return batch


# The feed.


class StatedFeed:
    def __init__(self, loader: Iterable[Any]) -> None:
        users: Any = loader
        self._users = users
        self._loader = keeping_draws(users) if keeps_draws(loader) else users
        self._is_anothers = isinstance(loader, DataLoader) and not keeps_draws(loader)
        self._watch: DrawWatch | None = None
        if self._is_anothers and users.num_workers:
            self._watch = DrawWatch(users)
        self._undo: list[Undo] = []
        """What is to be done when the loader's iterator is made."""
        self._sources = RandomSources({"loader": loader})
        self._count = BatchCount(ended=True)
        self._source: Iterator[Any] | None = None
        """None where there is nothing left to ask."""

    @property
    def length(self) -> int | None:
        return length_of(self._users)

    @property
    def signature(self) -> dict[str, Any]:
        return signature_of(self._users)

    def check(self) -> None:
        with_workers = isinstance(self._users, DataLoader) and self._users.num_workers > 0
        if with_workers and not self._users.in_order:
            raise PositionError(
                f"a {type(self._users).__qualname__} with in_order=False hands out batches as they "
                "happen to come, so no run is like another and none can go on exactly: set "
                "in_order=True"
            )

    def begin(self, epoch: int) -> Iterator[Any]:
        self._count = BatchCount(epoch)
        self._start()
        return Handing(self._count, self._take)

    def state(self) -> dict[str, Any]:
        self.check()
        if self._watch is not None and self._watch.drawn:
            raise PositionError(
                f"the workers of this {type(self._users).__qualname__} draw random numbers, which "
                "its state_dict() does not keep: a resumed run would draw others. Draw in the "
                "training loop, seed each item's generator by something in the item, or set "
                "num_workers=0"
            )
        state = state_of_loader(self._loader)
        digest, epochs = fingerprint_of(state), numbers(self._users)
        self._sources.look_again()
        own = kept(self._sources.read_own())
        return {
            **self._count.state(),
            "digest": digest,
            "loader": state,
            "epochs": epochs,
            "generators": own,
        }

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        raise PositionError(
            f"{type(self._users).__qualname__} keeps its own place, which is that of one rank "
            "among another number of them: go on with as many ranks as there were"
        )

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        self._count = count_of(state)
        set_numbers(self._users, state["epochs"])
        # Before `iter`: StatefulDataLoader reads it there and nowhere else.
        self._loader.load_state_dict(state["loader"])
        self._made()
        over = self._count.ended or self._is_read_out()
        if self._draws_again(over=over):
            self._undo.append(make_quietly(self._loader, self._mark))
        if not over:
            self._start()
        elif self._count.epoch >= 0 and ends_twice(self._users):
            self._pass_over_the_end()
        else:
            self._source = None
        # None in checkpoints that are older.
        self._sources.write(given(state.get("generators", {})))
        return Handing(self._count, self._take)

    def release(self) -> None:
        self._source = None
        self._made()

    def _start(self) -> None:
        if self._watch is not None:
            self._undo.append(self._watch.attach())
        self._source = iter(self._loader)

    def _take(self) -> Any:
        if self._source is None:
            raise StopIteration
        try:
            return next(self._source)
        finally:
            self._made()

    def _made(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _mark(self) -> Undo:
        reading = self._sources.read()
        return lambda: self._sources.write(reading)

    def _draws_again(self, *, over: bool) -> bool:
        """Whether an iterator will be made, and draw, that the run before the save had already."""
        if not isinstance(self._loader, DataLoader) or self._count.epoch < 0:
            return False
        if over:
            # Workers that stay are the same in the next epoch; a StatefulDataLoader makes one
            # iterator to see that the epoch was over, and then another.
            return self._loader.persistent_workers or not self._is_anothers
        # Many begin at their first batch, after the generators were set to their state at the save.
        return self._is_anothers

    def _is_read_out(self) -> bool:
        """All is handed out, and the loader was not asked once more."""
        if self._count.ended or not begins_anew_at_the_end(self._users):
            return False
        return self.length is not None and self._count.batch >= self.length

    def _pass_over_the_end(self) -> None:
        rest = sum(1 for _ in self._loader)
        if rest:
            raise PositionError(
                f"{type(self._users).__qualname__} has {rest} batches more in an epoch that was "
                "read to its end before the save: build it with the same data"
            )
