"""What the engine asks of the ranks, and what several ranks ask of a way to exchange gradients.

One process answers `Ranks` with nothing to do (single_process.py), several with distributed.py. A
new strategy is one file with an `Exchange` and an `exchange_of`, as ddp.py and fsdp.py have, named
in setup.py.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch.distributed as dist
from torch import Tensor

from gradkeeper.checkpoint.peers import Peers
from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.gradients import Norm, gradients, reconsidered, total_norm
from gradkeeper.engine.loss_weights import Pending, Weight
from gradkeeper.engine.resume.stateful import Stateful
from gradkeeper.tree import StateTree

if TYPE_CHECKING:
    from gradkeeper.engine.backward import Crediting
    from gradkeeper.engine.batches import MicroBatches, Stream
    from gradkeeper.engine.owner import Owner
    from gradkeeper.engine.window import Window

Sync = Literal["last", "every", "shards"]


class Ranks(Stateful, Protocol):
    """Where nothing is answered, nothing is to be done. Kept is what ranks agreed on."""

    rank: int | None
    """On the tape; None where there is one only."""
    size: int
    copies: bool
    """Whether all ranks hold the same weights."""
    first: bool
    """Tells the user what all ranks would tell."""

    # The loop

    def even(self, stream: "Stream") -> "MicroBatches":
        """The stream as this rank reads it."""

    def group(self, stream: "MicroBatches", size: int) -> list[Any]:
        """The group of micro-batches that this rank is handed."""

    def left(self) -> None:
        """The loop was left before its end."""
        return

    # Saving and stopping

    def keeps(self, heard: Callable[[], None]) -> None:
        """There is a folder to save to: ranks must be able to save and stop together."""
        return

    def want(self, *, save: bool = False, stop: bool = False) -> None:
        """Tells the other ranks, when they next meet."""
        return

    def wanted(self, *, save: bool, stop: bool) -> tuple[bool, bool]:
        """What all ranks have heard of, from this one or another, since they last saved."""

    def meet(self, stream: "MicroBatches | None" = None) -> None:
        """For what is wanted at this place of the program, if the ranks do not meet here anyway."""
        return

    def may_save(self, window: "Window") -> bool:
        """Whether what is pending in the window can be kept."""

    def peers(self) -> Peers | None:
        """Those who write a checkpoint together."""
        return None

    def restore(self, state: StateTree) -> None:
        return

    def window_state(self) -> StateTree: ...

    def go_on(self, state: StateTree) -> None:
        """A window that was open at a save is open again."""
        return

    # A window

    def open(self, window: "Window", stream: "MicroBatches | None") -> None:
        return

    def by_closure(self) -> None:
        """The window's losses are evaluated by the optimizer."""
        return

    def weighed(self, pending: Pending, weight: Weight | None, *, counts: bool) -> Weight | None:
        """The weight at which this rank's loss is credited."""

    def credited(self) -> bool | None:
        """After a backward: whether the ranks exchanged gradients in it."""
        return None

    def credit_nothing(
        self, crediting: "Crediting", loss: object, *, retain_graph: bool | None
    ) -> None:
        """A loss of weight 0: its backward is run only where other ranks wait for it."""
        return

    def torn(self, error: BaseException) -> None:
        """A backward failed half-way."""
        return

    def measured(self, owner: "Owner", pending: Pending) -> Norm:
        """Makes gradients, weights and loss those of all ranks, and measures the gradients."""

    def reconsidered(self, norm: Norm, parameters: list[Tensor]) -> Norm:
        """A norm that is not finite, looked at again."""

    def failed(self, error: BaseException) -> str | None:
        """An exception leaves the block. The reason, where it was another rank's."""
        return None

    def stepped(self, owner: "Owner") -> None:
        """The step is taken, on all ranks."""
        return

    def ended(self, owner: "Owner") -> None:
        """A loop has come to its end, on all ranks."""
        return

    def close(self) -> None:
        return

    def forget(self) -> None:
        """Drops what is pending elsewhere than in `.grad`."""
        return


class Reach(Protocol):
    """Which parameters the backwards of a window reached."""

    @property
    def parameters(self) -> list[Tensor]: ...

    @property
    def flags(self) -> list[bool]:
        """As many; true of what is frozen."""

    def go_on(self, flags: list[bool]) -> None:
        """In a window in which these were."""


class Exchange(Protocol):
    """Which backward exchanges gradients, and that no rank waits for one that has failed.

    What it leaves in `.grad` is the mean over the ranks: windows are weighed on that. A strategy
    says `copies` and the first nine; the rest it says where its ranks take turns, read together or
    hold parts of a gradient.
    """

    copies: int
    """Of each gradient, among the ranks; 0: all of it is on each of them."""

    def open(self, planned: int | None, *, by_loader: bool) -> None:
        """A window begins. `planned`: how many micro-batches each rank will be handed, where that
        is known."""

    def hand(self, *, last: bool) -> None:
        """A micro-batch is handed out."""

    @property
    def exchanging(self) -> bool:
        """The next backward is exchanged, so all ranks must run it."""

    def credited(self) -> bool:
        """After a backward: whether it was exchanged."""

    def torn(self) -> None:
        """A backward failed half-way."""

    def leaves(self) -> list[Tensor]:
        """What a backward credits."""

    def at_close(self) -> None:
        """From now on, nothing is exchanged before the window's end."""

    def exchange(self, parameters: list[Tensor]) -> None:
        """What no backward has exchanged."""

    def close(self) -> None:
        """The window is over, and torch's own behaviour is back."""

    # How a window stands

    unsynced: bool = False
    """There are gradients here that the others have not seen."""
    exchanged: bool = False
    """In this window, gradients were exchanged."""
    stuck: bool = False
    """The others wait for this rank, and it cannot join them."""

    # Ranks that read together

    lockstep: bool = False
    """Whether ranks must read each micro-batch together."""
    alike: Sequence[Sequence[int]] = ()
    """Ranks that read the same micro-batches, because they share a layer (tensor parallelism)."""

    def meet_before_forward(self, meet: Callable[[], None]) -> None:
        """To be called before each forward in which all ranks take part."""
        return

    # Turns: exchanges that all ranks take part in, whether they have a micro-batch or not

    @property
    def late(self) -> bool:
        """The micro-batch is over, and should have been exchanged."""
        return False

    @property
    def owes(self) -> bool:
        """Whether other ranks exchange more often in this window than this one has."""
        return False

    def settle(self) -> None:
        """Before a window, while all ranks are here."""
        return

    def take_due_turn(self) -> None:
        return

    def catch_up(self) -> bool:
        """Takes part in the backward that the others are in; False if this rank cannot."""
        return False

    def finish(self) -> None:
        """At the window's end: what the others do in it and this rank has not done."""
        return

    # Parts of gradients

    fills: bool = True
    """Whether parameters that a backward does not reach take part in its exchange."""

    @property
    def reached(self) -> Reach | None:
        """None where it does not matter which parameters were."""
        return None

    def norm(self, parameters: list[Tensor]) -> Tensor:
        """Of this rank's gradients. Where parts of them lie here, of these."""
        return total_norm(gradients(parameters))

    def reconsidered(self, norm: Norm, parameters: list[Tensor]) -> Norm:
        """A norm that is not finite, looked at again."""
        return reconsidered(norm, gradients(parameters))

    def forget(self) -> None:
        """Drops what is pending elsewhere than in `.grad`."""
        return

    # What is kept

    keeps_pending: bool = True
    """Whether what is pending in mid-window can be saved."""

    def state(self) -> list[bool]:
        return []

    def restore(self, state: list[bool]) -> None:
        return


def check_world(sizes: set[int]) -> None:
    """`sizes`: how many ranks share the model, or parts of it."""
    ranks = dist.get_world_size()
    if sizes != {ranks}:
        raise SetupError(
            f"the model is shared by {min(sizes)} of {ranks} ranks: the engine sums weights over "
            "all ranks, so all must train the same model"
        )
