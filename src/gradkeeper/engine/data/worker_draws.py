"""What is drawn in the workers of loaders that keep their own place.

A StatefulDataLoader asks its workers for the state of the dataset: there it can travel along. Of
other loaders it can only be told that something was drawn.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from gradkeeper.engine.data.generators import RandomSources, Reading, changed
from gradkeeper.engine.data.libraries import forget_start
from gradkeeper.engine.data.samplers import is_stateful
from gradkeeper.engine.preemption import protect_worker
from gradkeeper.torch_private import Undo, copied_loader, stateful_loader

# Along with the dataset's state, in torchdata's own way.


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
