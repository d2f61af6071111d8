"""One process: there is nobody to agree with."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradkeeper.engine.batches import group_of
from gradkeeper.engine.close import refuse_empty, unscale
from gradkeeper.engine.gradients import Norm, gradients, reconsidered, total_norm
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.loss_weights import Weight

if TYPE_CHECKING:
    from gradkeeper.engine.backward import Crediting
    from gradkeeper.engine.batches import Stream
    from gradkeeper.engine.loss_weights import Pending
    from gradkeeper.engine.owner import Owner
    from gradkeeper.engine.ranks.uneven_data import EvenStream
    from gradkeeper.engine.window import Window


class SingleProcess:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    rank: int | None = None
    """On the tape; None where there is one only."""
    size = 1
    copies = False
    """Whether all ranks hold the same weights."""
    first = True
    """Tells the user what all ranks would tell."""

    def even(self, stream: "Stream") -> "Stream":
        """The stream as this rank reads it."""
        return stream

    def group(self, stream: "Stream | EvenStream", size: int) -> list[Any]:
        """The group of micro-batches that this rank is handed."""
        return group_of(stream, size)

    def keeps(self, heard: Callable[[], None]) -> None:
        """There is a folder to save to: ranks must be able to save and stop together."""

    def want(self, *, save: bool = False, stop: bool = False) -> None:
        """Tells the other ranks, when they next meet."""

    def wanted(self, *, save: bool, stop: bool) -> tuple[bool, bool]:
        """What all ranks have heard of, from this one or another, since they last saved."""
        return save, stop

    def meet(self, stream: "Stream | EvenStream | None" = None) -> None:
        """For what is wanted at this place of the program, if the ranks do not meet here anyway."""

    def may_save(self, window: "Window") -> bool:
        """Whether what is pending in the window can be kept."""
        return True

    def peers(self) -> None:
        """Those who write a checkpoint together."""

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        return

    def window_state(self) -> dict[str, Any]:
        return {}

    def go_on(self, state: dict[str, Any]) -> None:
        """A window that was open at a save is open again."""

    def left(self) -> None:
        """The loop was left before its end."""

    def open(self, window: "Window", stream: "Stream | EvenStream | None") -> None:
        return

    def close(self) -> None:
        return

    def by_closure(self) -> None:
        """The window's losses are evaluated by the optimizer."""

    def weighed(self, pending: "Pending", weight: Weight | None, *, counts: bool) -> Weight | None:
        """The weight at which this rank's loss is credited."""
        return weight

    def credited(self) -> bool | None:
        """After a backward: whether the ranks exchanged gradients in it."""
        return None

    def credit_nothing(
        self, crediting: "Crediting", loss: object, *, retain_graph: bool | None
    ) -> None:
        """A loss of weight 0: its backward is not run."""

    def torn(self, error: BaseException) -> None:
        """A backward failed half-way."""

    def measured(self, owner: "Owner", pending: "Pending") -> Norm:
        """Makes gradients, weights and loss those of all ranks, and measures the gradients."""
        held = gradients(owner.parameters)
        refuse_empty(pending, held=bool(held))
        unscale(owner, self._journal)
        tensor = total_norm(held)
        length, pending.weights = pending.weights.settled(tensor)
        return Norm(tensor, length)

    def reconsidered(self, norm: Norm, held: list[Tensor]) -> Norm:
        return reconsidered(norm, held)

    def failed(self, error: BaseException) -> str | None:
        """An exception leaves the block. The reason, where it was another rank's."""
        return None

    def forget(self) -> None:
        """Drops what is pending elsewhere than in `.grad`."""
