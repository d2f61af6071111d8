"""One process: there is nobody to agree with. Whatever is not answered here is nothing to do."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradkeeper.engine.batches import MicroBatches, Stream, group_of
from gradkeeper.engine.close import measured
from gradkeeper.engine.gradients import Norm, gradients, reconsidered
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.loss_weights import Pending, Weight
from gradkeeper.engine.ranks.base import Ranks
from gradkeeper.tree import StateTree

if TYPE_CHECKING:
    from gradkeeper.engine.owner import Owner
    from gradkeeper.engine.window import Window


class SingleProcess(Ranks):
    rank: int | None = None
    size = 1
    copies = False
    first = True

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def even(self, stream: Stream) -> Stream:
        return stream

    def group(self, stream: MicroBatches, size: int) -> list[Any]:
        return group_of(stream, size)

    def wanted(self, *, save: bool, stop: bool) -> tuple[bool, bool]:
        return save, stop

    def may_save(self, window: "Window") -> bool:
        return True

    def state(self) -> StateTree:
        return {}

    def window_state(self) -> StateTree:
        return {}

    def weighed(self, pending: Pending, weight: Weight | None, *, counts: bool) -> Weight | None:
        return weight

    def measured(self, owner: "Owner", pending: Pending) -> Norm:
        return measured(owner, pending, self._journal)

    def reconsidered(self, norm: Norm, parameters: list[Tensor]) -> Norm:
        return reconsidered(norm, gradients(parameters))
