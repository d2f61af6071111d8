"""A DataLoader over a map-style dataset: found again by its sampler, without reading data."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from gradkeeper.engine.data.handing import Count, Handing, count_of
from gradkeeper.engine.data.order import Order
from gradkeeper.engine.data.plain import given, kept
from gradkeeper.engine.data.samplers import Samplers
from gradkeeper.engine.data.shape import length_of, shape_of_loader
from gradkeeper.engine.data.sources import Reading, Sources
from gradkeeper.engine.data.worker import Bare, Delivered, Prepare, Reader, Tasks, as_it_is
from gradkeeper.engine.errors import PositionError
from gradkeeper.torch_private import copied_loader, end_workers


class SampledFeed:
    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._workers = loader.num_workers
        self._samplers = Samplers(loader)
        self._count = Count(ended=True)
        self._source: Iterator[Any] = iter(())
        self._drawn: dict[int, Reading] = {}
        """By worker: its generators after the last batch of its that was handed out."""
        self._build()

    @property
    def length(self) -> int | None:
        return length_of(self._loader)

    @property
    def shape(self) -> dict[str, Any]:
        return shape_of_loader(self._loader)

    def check(self) -> None:
        if self._workers and not self._loader.in_order:
            raise PositionError(
                "a DataLoader with in_order=False hands out batches as they happen to come, so no "
                "run is like another and none can go on exactly: set in_order=True"
            )

    def begin(self, epoch: int) -> Iterator[Any]:
        # Workers stay only if the epoch before was read to its end: else they have drawn numbers
        # for batches that never arrived.
        stay = self._loader.persistent_workers and self._order.begun and self._count.ended
        if stay:
            self._order.begin()
        else:
            self._drawn = {}
            self._build()
        self._count = Count(epoch)
        self._source = iter(self._copy)
        return Handing(self._count, self._take)

    def state(self) -> dict[str, Any]:
        self.check()
        self._sources.look_again()
        return {
            **self._count.state(),
            "digest": self._order.digest,
            "order": self._order.state(),
            "generators": kept(self._sources.read_own()),
            "workers": [[number, kept(drawn)] for number, drawn in self._drawn.items()],
        }

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        order = self._order.shared_out(state["order"])
        return state | {"batch": batch, "order": order, "workers": []}

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        self.check()
        self._count = count_of(state)
        self._drawn = {number: given(drawn) for number, drawn in state["workers"]}
        self._build()
        self._order.find(state["order"], self._count.batch)
        if not self._count.ended or (self._loader.persistent_workers and self._order.begun):
            self._start_again()
        elif self._order.begun:
            self._order.find_end()
        self._sources.write(given(state["generators"]))
        return Handing(self._count, self._take)

    def release(self) -> None:
        # Those that stay have come to the epoch's end: the next one begins with them.
        if not self._count.ended:
            self._source = iter(())
            end_workers(self._copy)

    def _build(self) -> None:
        loader = self._loader
        roots = {
            "generator": loader.generator,
            "sampler": self._samplers.index,
            "dataset": loader.dataset,
            "collate_fn": loader.collate_fn,
        }
        self._sources = Sources(roots)
        # None of these holds on to the feed: in a cycle, an iterator would die in a later worker's
        # garbage collection, where it waits 5 seconds for each of its workers.
        tasks = Tasks(self._workers, dict(self._drawn)) if self._workers else Bare()
        self._order = Order(self._samplers, self._sources, tasks)
        self._copy = _copy_of(loader, self._order)

    def _start_again(self) -> None:
        """The loader's own iterator, in mid-epoch; with workers, as far ahead as it was."""
        self._sources.write(self._order.created)
        turns = self._count.batch % self._workers if self._workers else 0
        self._order.pass_turns(turns)
        self._source = iter(self._copy)
        for _ in range(turns):
            next(self._source)
        if self._count.ended:
            next(self._source, None)

    def _take(self) -> Any:
        try:
            taken = next(self._source)
        except StopIteration:
            raise
        except Exception:
            self._order.handed_out()
            raise
        self._order.handed_out()
        if not self._workers:
            return taken
        return self._unpacked(taken)

    def _unpacked(self, delivered: Delivered) -> Any:
        worker = self._count.batch % self._workers
        self._drawn[worker] = self._drawn.get(worker, {}) | delivered.drawn
        if delivered.failure is not None:
            delivered.failure.reraise()
        return delivered.batch


def _copy_of(loader: DataLoader[Any], order: Order) -> DataLoader[Any]:
    """The loader with all of the user's settings that draws its indices through us."""
    if loader.num_workers == 0:
        name = "sampler" if loader.batch_sampler is None else "batch_sampler"
        return copied_loader(loader, **{name: order})
    return copied_loader(
        loader,
        # Without a batch sampler a loader passes indices on as they are, and so our tasks.
        sampler=order,
        batch_sampler=None,
        dataset=Reader(loader.dataset, loader.collate_fn, loader.batch_sampler is not None),
        collate_fn=as_it_is,
        worker_init_fn=Prepare(loader.worker_init_fn),
    )
