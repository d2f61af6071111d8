"""A loader of each rank, read so that all ranks take the same number of micro-batches, or groups
of them; one that is handed out again leaves no trace.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradkeeper import rng
from gradkeeper.checkpoint import UnkeepableError
from gradkeeper.checkpoint.codec import encode
from gradkeeper.engine.batches import END, Position, Stream, group_of
from gradkeeper.engine.data import Feed
from gradkeeper.engine.errors import LoaderError
from gradkeeper.engine.ranks.rendezvous import Meeting, Status

if TYPE_CHECKING:
    from gradkeeper.engine.ranks.distributed import Distributed


# A rank that runs out is handed its last one again, at weight 0: its forward and backward are what
# the others wait for. Where all loaders have a length, ranks tell each other at a window's end how
# much is left, and need not ask in between; else they ask before each micro-batch.


UNKNOWN = -1


class EvenStream:
    """MicroBatches of one rank among several."""

    def __init__(self, stream: Stream, ranks: "Distributed") -> None:
        self._stream = stream
        self._ranks = ranks
        self.last: Any = END
        """What was handed out last: a micro-batch, or a group of them."""
        self.most: int | None = None
        """What the rank with most has left; None where that is not known."""
        self._least = UNKNOWN
        self._ahead = False
        """Some rank may have fetched a micro-batch that it has not handed out."""

    @property
    def length(self) -> int | None:
        return self._stream.length

    @property
    def position(self) -> Position:
        return self._stream.position

    @property
    def ended(self) -> bool:
        return self._stream.ended

    @property
    def feed(self) -> Feed:
        return self._stream.feed

    @property
    def between(self) -> bool:
        """Whether all ranks can keep their place: they save together or not at all."""
        return not self._ahead and self._stream.between

    @property
    def remaining(self) -> int:
        length = self._stream.length
        return UNKNOWN if length is None else max(0, length - self._stream.position.batch)

    def hear(self, statuses: list[Status]) -> None:
        """Each rank has said how much is left."""
        left = [int(status.remaining) for status in statuses]
        self._least = min(left)
        self.most = None if self._least == UNKNOWN else max(left)

    def begin_epoch(self) -> None:
        self._stream.begin_epoch()
        self.hear(self._ranks.roll.call(Meeting.EPOCH, remaining=self.remaining))

    def resume_epoch(self, position: Position, state: dict[str, Any], *, ended: bool) -> None:
        self._stream.resume_epoch(position, state, ended=ended)
        self.hear(self._ranks.roll.call(Meeting.EPOCH, remaining=self.remaining))

    def state(self) -> dict[str, Any]:
        """What was last is kept only where the rank may have run out, and be handed it again."""
        out = self.ended or self.remaining in (0, UNKNOWN)
        return {"last": self.last if out and _can_be_kept(self.last) else None}

    def restore(self, state: dict[str, Any]) -> None:
        last = state.get("last")  # one process alone keeps none
        if last is not None:
            self.last = self._stream.moved(last)

    def pass_over(self, position: Position) -> None:
        self._stream.pass_over(position)

    def more(self) -> bool:
        """Whether any rank has another micro-batch; asked between windows."""
        if self.most:
            return True
        mine = self._stream.more()
        left = self.remaining
        # A loader may hold more than its length said.
        said = max(left, int(mine)) if left != UNKNOWN else left
        statuses = self._ranks.roll.call(Meeting.EPOCH, remaining=said, more=float(mine))
        self.hear(statuses)
        self._ahead = any(status.more for status in statuses)
        return self._ahead

    def meet(self) -> None:
        """Between windows, before a loader without a length is asked: ranks can save then."""
        statuses = self._ranks.roll.call(Meeting.EPOCH, more=float(not self.between))
        self._ahead = any(status.more for status in statuses)

    def gives_all(self, size: int) -> bool:
        """Whether each rank is known to have had as many when they last told each other."""
        return self._least >= size

    def goes_on(self) -> bool:
        """Whether the window's ranks read one more; all are at this place then, if they save."""
        ranks = self._ranks
        ranks.between()
        if self.most is None:
            # The loader is asked in read(): after that, its place cannot be kept.
            return ranks.meet_in_window()
        if not ranks.in_step:
            return not ranks.filled
        return ranks.read_on(more=self._has_more())

    def read(self) -> Any:
        """The next micro-batch, a last one again, or END."""
        ranks = self._ranks
        if ranks.window is None:
            self.most = None  # a group is read: nobody tells how much is left after it
            self._ahead = False
            return self._stream.read()
        if self.most is None and not ranks.read_on(more=self._has_more()):
            return END
        self._ahead = False
        # Before it is read: should that fail, the others are handed theirs, and wait for this rank.
        ranks.hand()
        batch = self._stream.read()
        if batch is END:
            ranks.hand_again()
            return self.once_more()
        self.last = batch
        return batch

    def _has_more(self) -> bool:
        """A loader with a length is not asked beyond it within a window."""
        return self._stream.more() if self._stream.length is None else self.remaining > 0

    def once_more(self) -> Any:
        if self.last is END:
            raise LoaderError(
                f"the loader of rank {self._ranks.rank} has no more micro-batches, those of others "
                "have, and there is none to be handed out again: each rank needs one at least, and "
                "one of plain tensors, lists and dicts where it is to be kept in a checkpoint"
            )
        return self.last


def _can_be_kept(batch: Any) -> bool:
    """Else the run can be kept nevertheless: it may never come to that."""
    try:
        encode(batch)
    except UnkeepableError:
        return False
    return True


# A micro-batch that is handed out again must leave no trace: buffers and RNG go back.


class Before:
    """Buffers and random numbers as they are now."""

    def __init__(self, models: list[nn.Module]) -> None:
        buffers = [buffer for model in models for buffer in model.buffers()]
        self._buffers: list[tuple[Tensor, Tensor]] = [
            (buffer, buffer.clone()) for buffer in buffers
        ]
        self._rng = rng.state()

    def restore(self) -> None:
        with torch.no_grad():
            for buffer, value in self._buffers:
                buffer.copy_(value)
        rng.restore(self._rng)


# Groups of micro-batches, as batches() hands them out, on several ranks.


class BatchGroups:
    def __init__(self, models: list[nn.Module]) -> None:
        self._models = models
        self._before: Before | None = None
        self.uneven = False
        """Some rank may have a shorter one, and would not take part in all exchanges."""

    @property
    def again(self) -> bool:
        """Whether this rank was handed its last one again: nothing in it counts."""
        return self._before is not None

    def take(self, stream: EvenStream, size: int) -> list[Any]:
        self.uneven = not stream.gives_all(size)
        group = group_of(stream, size)
        if group:
            stream.last = group
            return group
        last: list[Any] = stream.once_more()
        self._before = Before(self._models)
        return last

    def over(self) -> None:
        self.uneven = False
        if self._before is not None:
            self._before.restore()
            self._before = None
