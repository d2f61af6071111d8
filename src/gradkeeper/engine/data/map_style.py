"""A DataLoader over a map-style dataset: found again by its sampler, without reading data.

Its indices are drawn through us, in the main process; batches come back from its workers with the
state of the generators there.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader, get_worker_info

from gradkeeper.engine.data.feed import BatchCount, Handing, count_of, given, kept
from gradkeeper.engine.data.fingerprint import Fingerprint, spelled
from gradkeeper.engine.data.generators import RandomSources, Reading, changed
from gradkeeper.engine.data.random_calls import NO_CALLS, RandomCalls
from gradkeeper.engine.data.samplers import Samplers
from gradkeeper.engine.data.signature import length_of, signature_of_loader
from gradkeeper.engine.errors import PositionError
from gradkeeper.engine.preemption import protect_worker
from gradkeeper.torch_private import ExceptionWrapper, copied_as_plain, end_workers, pinned

# What runs in a worker: the user's dataset and collate function, with their random numbers.
#
# A batch comes back with the state of the worker's generators after it, as far as it has changed.
# In a new process the first batch for a worker takes along the state that the worker had before it.


@dataclass(slots=True)
class Task:
    index: Any
    start: Reading | None = None
    idle: bool = False
    """Nothing to read: it only takes a worker's turn."""


class Tasks:
    """Indices as tasks for workers, who take turns."""

    def __init__(self, workers: int, unsent: dict[int, Reading]) -> None:
        self._workers = workers
        self._unsent = unsent
        """What workers of a new process are still to be told of those before them."""

    def task(self, number: int, index: Any) -> Task:
        return Task(index, self._unsent.pop(number % self._workers, None))

    def idle(self) -> Task:
        return Task(None, idle=True)


class Bare:
    """In the main process an index is all that is needed."""

    def task(self, number: int, index: Any) -> Any:
        return index

    def idle(self) -> Any:
        raise AssertionError("no workers, no turns")


@dataclass(slots=True)
class Delivered:
    batch: Any
    drawn: Reading
    failure: ExceptionWrapper | None = None

    def pin_memory(self) -> "Delivered":
        """Called by the loader's own thread, which then leaves the rest to us."""
        return Delivered(pinned(self.batch), self.drawn, self.failure)


@dataclass
class TaskReader:
    """In place of the dataset: takes a task for an index, and does the whole of it."""

    dataset: Any
    collate: Callable[[Any], Any]
    batched: bool

    def __post_init__(self) -> None:
        self._sources: RandomSources | None = None
        self._last: Reading = {}

    def __getitem__(self, task: Task) -> Delivered:
        if task.idle:
            return Delivered(None, {})
        if self._sources is None:
            self._sources = RandomSources({"dataset": self.dataset, "collate_fn": self.collate})
        sources = self._sources
        if task.start is not None:
            sources.write(task.start)
            self._last = task.start
        batch, failure = self._attempt(task.index)
        sources.look_again()
        reading = sources.read()
        drawn = changed(reading, self._last)
        self._last = reading
        return Delivered(batch, drawn, failure)

    def _attempt(self, index: Any) -> tuple[Any, ExceptionWrapper | None]:
        try:
            return self.collate(self._read(index)), None
        except Exception:
            worker = get_worker_info()
            number = worker.id if worker is not None else 0
            return None, ExceptionWrapper(where=f"in DataLoader worker process {number}")

    def _read(self, index: Any) -> Any:
        if not self.batched:
            return self.dataset[index]
        at_once = getattr(self.dataset, "__getitems__", None)
        if at_once:
            return at_once(index)
        return [self.dataset[item] for item in index]


@dataclass
class Prepare:
    """In place of worker_init_fn, which must see the user's dataset and not ours."""

    init: Callable[[int], Any] | None

    def __call__(self, number: int) -> None:
        worker = get_worker_info()
        if worker is not None and isinstance(worker.dataset, TaskReader):
            # It refuses to be assigned to in the usual way.
            object.__setattr__(worker, "dataset", worker.dataset.dataset)
        protect_worker()
        if self.init is not None:
            self.init(number)


def as_it_is(delivered: Delivered) -> Delivered:
    return delivered


# In place of a loader's index sampler: passes its indices on, and knows which and how many.


class RecordedOrder:
    """One epoch's indices after another's, drawn when the loader asks, as the sampler draws them.

    To find a place again the sampler is set back to the epoch's begin and asked anew: that costs
    the indices and reads no data.
    """

    def __init__(self, samplers: Samplers, sources: RandomSources, tasks: Tasks | Bare) -> None:
        self.created: Reading = {}
        """The generators after the loader's first `iter(sampler)`: workers are seeded from that."""
        self._samplers = samplers
        self._sources = sources
        self._tasks = tasks
        self._turns = 0
        self.begin()

    def begin(self) -> None:
        self._behind = Fingerprint()
        """Of the indices of all batches that were handed out."""
        self._ahead: deque[str] = deque()
        """Indices that were asked for, spelled, whose batches are not handed out yet."""
        self._random_calls = RandomCalls(self._sources)
        self._begun = self._sources.read()
        self._own = self._samplers.read()
        self._starts = 0
        self._number = 0
        self._indices: Iterator[Any] = iter(())
        self._found = False

    @property
    def digest(self) -> str:
        return str(self._behind)

    @property
    def begun(self) -> bool:
        """Whether a loader has ever asked."""
        return bool(self.created)

    def __iter__(self) -> Iterator[Any]:
        if not self._found:
            self._start()
        return self

    def __next__(self) -> Any:
        if self._turns:
            self._turns -= 1
            return self._tasks.idle()
        index = self._draw()
        return self._tasks.task(self._number - 1, index)

    def __len__(self) -> int:
        return len(self._samplers.index)

    def handed_out(self) -> None:
        # Nothing is ahead if the sampler itself failed.
        if self._ahead:
            self._behind.add(self._ahead.popleft())

    def state(self) -> dict[str, Any]:
        return {
            "begun": kept(self._begun),
            "created": kept(self.created),
            "samplers": self._own,
            "starts": self._starts,
            "replay": self._random_calls.state(),
            "digest": self.digest,
        }

    def shared_out(self, state: dict[str, Any]) -> dict[str, Any]:
        """The begin of that epoch, as a rank among another number of them draws from it."""
        held = self._samplers.of_any_rank(state["samplers"])
        starts = min(1, state["starts"])
        return state | {"samplers": held, "starts": starts, "replay": NO_CALLS, "digest": None}

    def find(self, state: dict[str, Any], batches: int) -> None:
        """To the place after so many batches; RNG and generators are left as they happen to be."""
        self._begun = given(state["begun"])
        self.created = given(state["created"])
        self._own = state["samplers"]
        self._samplers.write(self._own)
        self._sources.write(self._begun)
        self._random_calls.load(state["replay"])
        for _ in range(state["starts"]):
            self._start()
        for _ in range(batches):
            self._pass_over()
            self.handed_out()
        if state["digest"] not in (None, self.digest):
            raise PositionError(
                f"the sampler {type(self._samplers.index).__name__} gives other indices than those "
                f"of the {batches} batches before the save: build it with the same data and seeds, "
                "or give it state_dict() and load_state_dict()"
            )
        self._random_calls.pause()
        self._found = True

    def find_end(self) -> None:
        """As a loader does that is asked once more."""
        self._pass_over()

    def pass_turns(self, turns: int) -> None:
        """Workers take turns: so many come first with nothing to do, and each gets what was its."""
        self._turns = turns

    def _pass_over(self) -> None:
        try:
            self._draw()
        except Exception:
            # StopIteration too. The sampler failed here before the save as well, or the digest says
            # that it did not.
            return

    def _start(self) -> None:
        self._indices = self._random_calls.call(lambda: iter(self._samplers.index))
        self._starts += 1
        if not self.created:
            self.created = self._sources.read()

    def _draw(self) -> Any:
        settled = self._samplers.draw_at_first and self._number > 0
        index = self._random_calls.call(self._indices.__next__, own_only=settled)
        self._number += 1
        # Spelled here: a dataset may change the list that it is handed.
        self._ahead.append(spelled(index))
        return index


# The feed.


class SampledFeed:
    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._workers = loader.num_workers
        self._samplers = Samplers(loader)
        self._count = BatchCount(ended=True)
        self._source: Iterator[Any] = iter(())
        self._drawn: dict[int, Reading] = {}
        """By worker: its generators after the last batch of its that was handed out."""
        self._build()

    @property
    def length(self) -> int | None:
        return length_of(self._loader)

    @property
    def signature(self) -> dict[str, Any]:
        return signature_of_loader(self._loader)

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
        self._count = BatchCount(epoch)
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
        self._sources = RandomSources(roots)
        # None of these holds on to the feed: in a cycle, an iterator would die in a later worker's
        # garbage collection, where it waits 5 seconds for each of its workers.
        tasks = Tasks(self._workers, dict(self._drawn)) if self._workers else Bare()
        self._order = RecordedOrder(self._samplers, self._sources, tasks)
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


def _copy_of(loader: DataLoader[Any], order: RecordedOrder) -> DataLoader[Any]:
    """The loader with all of the user's settings that draws its indices through us."""
    if loader.num_workers == 0:
        name = "sampler" if loader.batch_sampler is None else "batch_sampler"
        return copied_as_plain(loader, **{name: order})
    return copied_as_plain(
        loader,
        # Without a batch sampler a loader passes indices on as they are, and so our tasks.
        sampler=order,
        batch_sampler=None,
        dataset=TaskReader(loader.dataset, loader.collate_fn, loader.batch_sampler is not None),
        collate_fn=as_it_is,
        worker_init_fn=Prepare(loader.worker_init_fn),
    )
