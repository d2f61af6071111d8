"""What runs in a worker: the user's dataset and collate function, with their random numbers.

A batch comes back with the state of the worker's generators after it, as far as it has changed. In
a new process the first batch for a worker takes along the state that the worker had before it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info

from gradkeeper.engine.data.sources import Reading, Sources, changed
from gradkeeper.engine.preemption import protect_worker


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
        from torch.utils.data._utils.pin_memory import pin_memory

        return Delivered(pin_memory(self.batch), self.drawn, self.failure)


@dataclass
class Reader:
    """In place of the dataset: takes a task for an index, and does the whole of it."""

    dataset: Any
    collate: Callable[[Any], Any]
    batched: bool

    def __post_init__(self) -> None:
        self._sources: Sources | None = None
        self._last: Reading = {}

    def __getitem__(self, task: Task) -> Delivered:
        if task.idle:
            return Delivered(None, {})
        if self._sources is None:
            self._sources = Sources({"dataset": self.dataset, "collate_fn": self.collate})
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
        return [self.dataset[one] for one in index]


@dataclass
class Prepare:
    """In place of worker_init_fn, which must see the user's dataset and not ours."""

    init: Callable[[int], Any] | None

    def __call__(self, number: int) -> None:
        worker = get_worker_info()
        if worker is not None and isinstance(worker.dataset, Reader):
            # It refuses to be assigned to in the usual way.
            object.__setattr__(worker, "dataset", worker.dataset.dataset)
        protect_worker()
        if self.init is not None:
            self.init(number)


def as_it_is(delivered: Delivered) -> Delivered:
    return delivered
