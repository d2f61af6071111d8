"""Micro-batches out of a loader, with their position, on their device; and how far one call of
windows() or batches() has come.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor

from gradkeeper.engine.data import Feed, next_epoch
from gradkeeper.engine.errors import LoaderError
from gradkeeper.engine.journal import Journal
from gradkeeper.model.events import Batch, EpochBegin, EpochEnd

if TYPE_CHECKING:
    from gradkeeper.engine.resume.open_window import OpenWindow

# Batches moved to a device, whatever they are made of.


class Mover(Protocol):
    def __call__(self, batch: Any) -> Any: ...


def stay(batch: Any) -> Any:
    return batch


def mover(device: str | torch.device | None) -> Mover:
    if device is None:
        return stay
    target = torch.device(device)
    return lambda batch: moved(batch, target)


def moved(batch: Any, device: torch.device) -> Any:
    """Tensors, and what lies in mappings, lists and tuples; anything else only if it has `.to`."""
    match batch:
        case Tensor():
            # Out of pinned memory the copy runs beside the computation.
            return batch.to(device, non_blocking=batch.is_pinned())
        case str() | bytes():
            return batch
        case Mapping():
            items = {key: moved(value, device) for key, value in batch.items()}
            return items if type(batch) is dict or not hasattr(batch, "to") else batch.to(device)
        case tuple() if hasattr(batch, "_fields"):
            return type(batch)(*(moved(part, device) for part in batch))
        case list() | tuple():
            return type(batch)(moved(part, device) for part in batch)
    return batch.to(device) if hasattr(batch, "to") else batch


# Their position: which epoch, how many batches asked for.


SOURCE = "loader"


class _EpochEnd:
    """In place of a batch when the epoch is over."""


END = _EpochEnd()


@dataclass(slots=True)
class Position:
    epoch: int = -1
    batch: int = 0
    """Batches of this epoch that are behind: handed out, or failed on."""


class MicroBatches(Protocol):
    """A loader read epoch by epoch: by one process (`Stream`), or by several ranks in step."""

    @property
    def length(self) -> int | None: ...

    @property
    def position(self) -> Position: ...

    @property
    def feed(self) -> Feed: ...

    @property
    def ended(self) -> bool: ...

    @property
    def between(self) -> bool:
        """Whether all that was fetched is handed out: the position can be kept."""

    def begin_epoch(self) -> None: ...

    def resume_epoch(self, position: Position, state: dict[str, Any], *, ended: bool) -> None:
        """Goes on where another process was. The random generators are to be set after this."""

    def pass_over(self, position: Position) -> None:
        """Another process has read it to its end."""

    def more(self) -> bool:
        """Whether the epoch has another batch; asked between windows."""

    def goes_on(self) -> bool:
        """Whether the window may read one more; several ranks agree on that."""

    def read(self) -> Any:
        """The next batch, or END."""

    def state(self) -> dict[str, Any]:
        """Beside its position."""

    def restore(self, state: dict[str, Any]) -> None: ...


class Stream:
    """A loader read by one process.

    Where the loader has a length, that decides when an epoch ends. Looking one batch ahead would
    do for every loader, but it changes bits where a dataset draws random numbers in the main
    process: so that is for loaders without a length, and only between windows.
    """

    def __init__(self, loader: Iterable[Any], feed: Feed, move: Mover, journal: Journal) -> None:
        self.position = Position()
        self.feed = feed
        self.length = feed.length
        self.ended = False
        self._loader = loader
        self._once = isinstance(loader, Iterator)
        self._move = move
        self._journal = journal
        self._batches: Iterator[Any] = iter(())
        self._ahead: Any = END

    @property
    def between(self) -> bool:
        return self._ahead is END

    def begin_epoch(self) -> None:
        self._open_epoch(Position(self.position.epoch + 1), ended=False)
        if self.position.epoch:
            next_epoch(self._loader)
        self._batches = self.feed.begin(self.position.epoch)
        if self.position.epoch and self._once and not self.more():
            raise LoaderError(
                f"epoch {self.position.epoch + 1} has no batches: an iterator can be read once "
                "only; pass a DataLoader, a list, or anything that starts anew"
            )

    def resume_epoch(self, position: Position, state: dict[str, Any], *, ended: bool) -> None:
        self._open_epoch(position, ended=ended)
        self._batches = self.feed.resume(state)

    def pass_over(self, position: Position) -> None:
        self.position, self.ended = position, True

    def _open_epoch(self, position: Position, *, ended: bool) -> None:
        self.position = position
        self.ended = ended
        self._journal.here()
        self._journal.write(EpochBegin, source=SOURCE)

    def goes_on(self) -> bool:
        return True

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        return

    def moved(self, batch: Any) -> Any:
        return self._move(batch)

    def more(self) -> bool:
        if self.ended or self._ahead is not END:
            return not self.ended
        if self.length is not None and self.position.batch < self.length:
            return True
        # Also where the length is reached: a loader runs to its end, as it does in a for loop, and
        # one that holds more than its length said is read on.
        self._ahead = self._fetch()
        return not self.ended

    def read(self) -> Any:
        """A loader with a length is not asked beyond it."""
        if self.ended or (self._ahead is END and self.position.batch == self.length):
            return END
        batch, self._ahead = self._ahead, END
        if batch is END:
            batch = self._fetch()
        if batch is END:
            return END
        self._journal.here()
        self._journal.write(Batch, source=SOURCE)
        self.position.batch += 1
        return self._move(batch)

    def _fetch(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            self.ended = True
            self._journal.here()
            self._journal.write(EpochEnd, source=SOURCE)
            return END
        except Exception:
            # The loader has passed the batch it failed on, and goes on with the next one.
            self.position.batch += 1
            raise


def group_of(stream: MicroBatches, size: int) -> list[Any]:
    """The next micro-batches, at most `size`."""
    group: list[Any] = []
    while len(group) < size:
        batch = stream.read()
        if batch is END:
            break
        group.append(batch)
    return group


# A loop: what was asked for, and how far it has come.


LoopKind = Literal["windows", "batches"]


@dataclass(slots=True, eq=False)
class EngineLoop:
    kind: LoopKind
    size: int
    epochs: int
    stream: MicroBatches
    loader: int
    """Which of the engine's loaders it reads, by the order of their first use."""
    handed: int = 0
    """Windows or groups of this epoch that are behind."""
    open: "OpenWindow | None" = None
    """One that was open at a save, to be handed out again."""

    over: bool = False
    """Another process has been through it."""

    def epochs_left(self) -> Iterator[int]:
        """Begins each, except for one that another process has begun."""
        if self.over:
            return
        if self.stream.position.epoch >= 0:
            yield self.stream.position.epoch
        while self.stream.position.epoch + 1 < self.epochs:
            self.handed = 0
            self.stream.begin_epoch()
            yield self.stream.position.epoch

    @property
    def signature(self) -> dict[str, Any]:
        """What must be equal on resume."""
        return {"loop": self.kind, "size": self.size, "loader": self.stream.feed.signature}

    @property
    def place(self) -> tuple[int, int]:
        return self.stream.position.epoch, self.stream.position.batch

    def state(self) -> dict[str, Any]:
        position = self.stream.position
        return {
            "epochs": self.epochs,
            "epoch": position.epoch,
            "batch": position.batch,
            "ended": self.stream.ended,
            "handed": self.handed,
            "loader": self.loader,
            "shape": self.signature,
            "stream": self.stream.state(),
        }

    def restore(self, state: dict[str, Any], feed: dict[str, Any]) -> None:
        """Goes on from there; `feed` is the place in its loader."""
        self.handed = state["handed"]
        self.stream.restore(state["stream"])
        position = Position(state["epoch"], state["batch"])
        self.stream.resume_epoch(position, feed, ended=state["ended"])

    def take_open(self) -> "OpenWindow | None":
        taken, self.open = self.open, None
        return taken
