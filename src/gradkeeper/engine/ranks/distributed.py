"""Several ranks that train one model: what a window does in all of them at once."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradkeeper.engine.backward import backward_of_nothing
from gradkeeper.engine.close import NO_GRADIENT, RefusedError, refuse_empty, unscale
from gradkeeper.engine.errors import RankError, WeightError, WindowError
from gradkeeper.engine.gradients import Norm, gradients
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.loss_weights import Pending, Tally, Weight, checked
from gradkeeper.engine.ranks.base import Exchange, Ranks
from gradkeeper.engine.ranks.rendezvous import (
    Health,
    Meeting,
    RankPeers,
    RollCall,
    Status,
    check_all_run_forward,
    check_all_save,
    check_same_items,
    check_same_window,
    digest,
    failure,
    too_late,
    torn_apart,
)
from gradkeeper.engine.ranks.replicas import ReplicaCheck
from gradkeeper.engine.ranks.uneven_data import BatchGroups, Before, EvenStream
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.engine.backward import Crediting
    from gradkeeper.engine.batches import MicroBatches, Stream
    from gradkeeper.engine.owner import Owner
    from gradkeeper.engine.window import Window


# What the ranks counted, added up.


def counts_of(pending: Pending, norm: Tensor | None) -> tuple[dict[str, float], Tally]:
    """This rank's numbers for the roll call, and its weights: the window's one wait for the device,
    since what is read after the first number is there already."""
    length, tally = pending.tally.settled(torch.zeros(()) if norm is None else norm)
    facts = {
        "weight": tally.total,
        "counted": pending.counted,
        "credits": pending.credits,
        "loss": 0.0 if pending.loss is None else pending.loss.item(),
        "norm": length,
    }
    return facts, tally


def put_totals(pending: Pending, statuses: list[Status], unit: float, last: float) -> None:
    """From now on, the window's numbers are those of all ranks. Of ranks that read the same, one
    has a status here.

    Gradients were averaged, so the unit counts once for each rank; the loss follows them.
    """
    ranks = len(statuses)
    pending.tally = Tally(unit * ranks, sum(status.weight for status in statuses), last)
    pending.counted = int(sum(status.counted for status in statuses))
    pending.credits = int(sum(status.credits for status in statuses))
    if pending.credits:
        total = math.fsum(status.loss for status in statuses)
        pending.loss = torch.tensor(total / ranks, dtype=torch.float64)


def whole_norm(statuses: list[Status], copies: int) -> float:
    """From the norms of parts, each of which `copies` ranks hold."""
    return math.hypot(*(status.norm for status in statuses)) / math.sqrt(copies)


# A window's end on several ranks: one roll call, and what follows from it.


class Closing:
    def __init__(self, roll: RollCall, sync: Exchange, journal: Journal) -> None:
        self._roll = roll
        self._sync = sync
        self._journal = journal

    def measured(
        self, owner: "Owner", pending: "Pending", stream: EvenStream | None, handed: int
    ) -> Norm:
        # A scaled gradient is measured after unscale_, which all ranks must reach alike.
        held = gradients(owner.parameters)
        early = bool(held) and not owner.precision.scaler
        tensor = self._sync.norm(owner.parameters) if early else None
        try:
            facts, tally = counts_of(pending, tensor)
        except WeightError:
            self.call(Health.FAILED_LATE, stream, handed)
            raise
        state = Health.FINE if pending.torn is None else Health.TORN
        unsynced = float(self._sync.unsynced)
        unreached = self._reached.count(False)
        statuses = self.call(state, stream, handed, unsynced=unsynced, unreached=unreached, **facts)
        self._raise_if_failed(statuses)
        check_same_items(statuses, self._sync.alike)
        own = [statuses[group[0]] for group in self._sync.alike] or statuses
        put_totals(pending, own, self._roll.unit, tally.last)
        if not (pending.counted and pending.credits):
            refuse_empty(pending, held=bool(held))
        exchange = any(status.unsynced for status in statuses)
        if exchange:
            self._sync.exchange(owner.parameters)
            self._journal.write(ev.Reduce, accounts=owner.accounts)
        if any(status.unreached for status in statuses):
            self._agree_on_reach(owner)
        if tensor is None or exchange:
            return self._measured_again(owner)
        return self._norm(tensor, statuses)

    @property
    def _reached(self) -> list[bool]:
        return [] if self._sync.reached is None else self._sync.reached.flags

    def _agree_on_reach(self, owner: "Owner") -> None:
        assert self._sync.reached is not None, "a rank has missed some"
        by_rank = self._roll.gather_flags(self._reached)
        for parameter, *reached in zip(self._sync.reached.parameters, *by_rank, strict=True):
            if not any(reached):
                parameter.grad = None
            elif not (all(reached) or self._sync.fills):
                [name] = owner.names_of([parameter])
                raise RankError(torn_apart(name, reached))

    def call(
        self, state: Health, stream: EvenStream | None, handed: int, **facts: float
    ) -> list[Status]:
        """Until all ranks are here; who is still reading or computing hears that others wait."""
        left = 0 if stream is None else stream.remaining
        statuses: list[Status] = []
        while not statuses or any(status.place != Meeting.CLOSE for status in statuses):
            statuses = self._roll.call(
                Meeting.CLOSE, state=state, handed=handed, remaining=left, **facts
            )
            check_same_window(statuses)
        if stream is not None:
            stream.hear(statuses)
        self._journal.write(ev.Digest, ranks=digest(statuses))
        return statuses

    def _raise_if_failed(self, statuses: list[Status]) -> None:
        reason = failure(statuses, self._roll.notes_left)
        if reason is None:
            return
        if too_late(statuses):
            raise RankError(f"{reason}: nothing was spent, the weights are as before")
        raise RefusedError(reason)

    def _measured_again(self, owner: "Owner") -> Norm:
        unscale(owner, self._journal)
        held = gradients(owner.parameters)
        if not held:
            raise RefusedError(NO_GRADIENT)
        tensor = self._sync.norm(owner.parameters)
        if not self._sync.copies:
            return Norm(tensor, tensor.item())
        return self._norm(tensor, self._roll.call(Meeting.WIDE, norm=tensor.item()))

    def _norm(self, tensor: Tensor, statuses: list[Status]) -> Norm:
        """Replicas hold the same gradients, shards parts of them."""
        if not self._sync.copies:
            return Norm(tensor, statuses[self._roll.rank].norm)
        length = whole_norm(statuses, self._sync.copies)
        return Norm(torch.full_like(tensor, length), length)

    def reconsidered(self, norm: Norm, parameters: list[Tensor]) -> Norm:
        again = self._sync.reconsidered(norm, parameters)
        if not self._sync.copies:
            return again
        statuses = self._roll.call(Meeting.WIDE, norm=again.length)
        return self._norm(again.tensor, statuses)


# Each backward is weighed by a unit that all ranks share, because DDP and FSDP2 average gradients
# before anybody knows the sum of weights. At a window's end one roll call adds up weights, losses
# and norms and tells who failed; then all ranks hold the same numbers and decide alike.


NOT_AGAIN = (
    "the loader of a rank runs out in this window and those of others do not: a closure is "
    "evaluated again and again, and cannot leave out a micro-batch that is handed out again. Give "
    "each rank the same number of micro-batches"
)


class Interrupted(BaseException):
    """Leaves the block of a rank whose window another one ended. No `except Exception` keeps it."""


class Distributed(Ranks):
    def __init__(
        self,
        roll: RollCall,
        sync: Exchange,
        models: list[nn.Module],
        journal: Journal,
    ) -> None:
        self.roll = roll
        self.rank: int | None = roll.rank
        self.size = roll.size
        self.first = roll.rank == 0
        self.copies = not sync.copies
        self.window: Window | None = None
        self._stream: EvenStream | None = None
        self._sync = sync
        self._models = models
        self._journal = journal
        self._closing = Closing(roll, sync, journal)
        self._replicas = ReplicaCheck(roll, journal, alike=not sync.copies)
        self._plan: int | None = None
        """How many micro-batches each rank is handed in this window, where that is known."""
        self._again: Before | None = None
        """Set while a micro-batch is handed out again."""
        self._meets = False
        """Whether ranks meet before each micro-batch, so that they can save and stop there."""
        self._parted = False
        """Some rank reads no more of this window."""
        self._by_closure = False
        self._noted = True
        """The last backward on the tape was exchanged."""
        self._groups = BatchGroups(models)
        sync.meet_before_forward(self._meet_before_forward)

    # The loop

    def even(self, stream: "Stream") -> EvenStream:
        return EvenStream(stream, self)

    def group(self, stream: "MicroBatches", size: int) -> list[Any]:
        """A group of micro-batches; the last one again, at weight 0, where this rank has none."""
        assert isinstance(stream, EvenStream), "made by even()"
        return self._groups.take(stream, size)

    # Saving and stopping

    def keeps(self, heard: Callable[[], None]) -> None:
        self._meets = True
        self.roll.heard = heard

    def want(self, *, save: bool = False, stop: bool = False) -> None:
        self.roll.wants_save = self.roll.wants_save or save
        self.roll.wants_stop = self.roll.wants_stop or stop

    def wanted(self, *, save: bool, stop: bool) -> tuple[bool, bool]:
        heard = self.roll.saving
        if heard:
            self.roll.saving = self.roll.wants_save = False
        return heard, self.roll.stopping

    def meet(self, stream: "MicroBatches | None" = None) -> None:
        self._groups.over()
        if stream is None:
            check_all_save(self.roll.call(Meeting.SAVE))
        elif self._meets and isinstance(stream, EvenStream) and stream.most is None:
            stream.meet()

    def may_save(self, window: "Window") -> bool:
        return self._sync.keeps_pending or not (window.read or window.credited)

    def peers(self) -> RankPeers:
        return RankPeers(self.roll)

    def state(self) -> dict[str, Any]:
        return {"unit": self.roll.agreed, "sync": self._sync.state()}

    def restore(self, state: dict[str, Any]) -> None:
        if state:  # not of one process alone
            self.roll.agreed = state["unit"]
            self._sync.restore(state["sync"])

    def window_state(self) -> dict[str, Any]:
        reached = [] if self._sync.reached is None else self._sync.reached.flags
        return {
            "unsynced": self._sync.unsynced,
            "exchanged": self._sync.exchanged,
            "reached": reached,
        }

    def go_on(self, state: dict[str, Any]) -> None:
        self._sync.unsynced = state["unsynced"]
        self._sync.exchanged = state["exchanged"]
        if self._sync.reached is not None:
            # Before 0.2.0, a parameter that was not reached had no gradient.
            held = [p.grad is not None for p in self._sync.reached.parameters]
            self._sync.reached.go_on(state.get("reached", held))
        self._noted = not state["unsynced"]

    def left(self) -> None:
        self._groups.over()
        self.roll.tell("left its loop")

    # A window

    def open(self, window: "Window", stream: "MicroBatches | None") -> None:
        assert stream is None or isinstance(stream, EvenStream), "made by even()"
        self.roll.open_window()
        self._parted = self._by_closure = False
        self._noted = True
        self.window, self._stream = window, stream
        most = None if stream is None else stream.most
        left = None if most is None else min(window.size - window.read, most)
        self._plan = None if left is None else window.read + left
        if not window.read:  # in one that goes on, the next forward exchanges what it did before
            self._settle()
        self._sync.open(left, by_loader=stream is not None)
        if stream is None and self._groups.uneven and self.copies:
            self._sync.at_close()

    def _settle(self) -> None:
        try:
            self._sync.settle()
        except RuntimeError as error:
            self.roll.raise_if_lost(error)
            raise

    def stepped(self, owner: "Owner") -> None:
        self._replicas.stepped(owner)

    def ended(self, owner: "Owner") -> None:
        self._replicas.ended(owner)

    def close(self) -> None:
        self._sync.close()
        self.window = self._stream = None

    def by_closure(self) -> None:
        self._by_closure = True
        self._sync.at_close()
        if self._plan is not None and self._stream is not None:
            if not self._stream.gives_all(self._plan - self._read):
                raise WindowError(NOT_AGAIN)

    def forget(self) -> None:
        self._sync.forget()

    # Its micro-batches

    @property
    def in_step(self) -> bool:
        """Whether ranks meet before each micro-batch, even if they know how many there are."""
        return self._meets or self._sync.lockstep

    @property
    def filled(self) -> bool:
        return self._plan is not None and self._read >= self._plan

    @property
    def _read(self) -> int:
        return 0 if self.window is None else self.window.read

    def meet_in_window(self) -> bool:
        """Where ranks save: those who read no more are not waited for."""
        return not self._meets or self.read_on(more=True)

    def read_on(self, *, more: bool) -> bool:
        """All ranks are here: is there another micro-batch for them?"""
        statuses = self.roll.call(Meeting.READ, more=float(more), handed=self._read)
        if any(status.place in (Meeting.BREAK, Meeting.CLOSE) for status in statuses):
            self._parted = True
            return False
        check_all_run_forward(statuses)
        return any(status.more for status in statuses)

    def hand(self) -> None:
        self._sync.hand(last=self._read + 1 == self._plan)

    def hand_again(self) -> None:
        if self._by_closure:
            raise WindowError(NOT_AGAIN)
        self._again = Before(self._models)

    def between(self) -> None:
        """A micro-batch is over."""
        if self._sync.late:
            # Asked for first: a rank may wait with its weight where this one takes a turn.
            self.roll.ask_for_unit(0.0)
            self._sync.take_due_turn()
        if self._again is not None:
            self._again.restore()
            self._again = None

    def _catches_up(self) -> bool:
        self.roll.ask_for_unit(0.0)
        return self._sync.catch_up()

    def _meet_before_forward(self) -> None:
        statuses = self.roll.call(Meeting.FORWARD)
        if failure(statuses, self.roll.notes_left) is not None:
            raise Interrupted
        check_all_run_forward(statuses)

    # Its losses

    def weighed(self, pending: "Pending", weight: Weight | None, *, counts: bool) -> Weight | None:
        if self._again is not None or self._groups.again:
            weight = 0.0 if counts else None
        if self.roll.needs_unit:
            self.roll.ask_for_unit(1.0 if weight is None else float(checked(weight)))
        if not pending.counted and isinstance(pending.tally, Tally):
            pending.tally.first = self.roll.unit
        return weight

    def credited(self) -> bool | None:
        self._noted = self._sync.credited()
        return self._noted

    def credit_nothing(
        self, crediting: "Crediting", loss: object, *, retain_graph: bool | None
    ) -> None:
        """Run where the others' backward waits for it."""
        if not (self._sync.exchanging and isinstance(loss, Tensor) and loss.requires_grad):
            return
        backward_of_nothing(crediting, loss, self._sync.leaves(), retain_graph=retain_graph)
        self._sync.credited()

    def torn(self, error: BaseException) -> None:
        self._sync.torn()
        self.roll.raise_if_lost(error)

    # Its end

    def measured(self, owner: "Owner", pending: "Pending") -> Norm:
        if self._sync.stuck and pending.torn is not None:
            self.roll.stop_for(f"a backward failed while the ranks exchanged: {pending.torn}")
            self.roll.tell(f"failed in a backward: {pending.torn}")
            self.roll.must_be_whole()
        self._finish()
        if not (self._noted or self._sync.unsynced):
            # With a turn that this rank took for a micro-batch it does not have.
            self._journal.write(ev.Reduce, accounts=owner.accounts)
        handed = 0 if self._stream is None else self._read
        return self._closing.measured(owner, pending, self._stream, handed)

    def reconsidered(self, norm: Norm, parameters: list[Tensor]) -> Norm:
        return self._closing.reconsidered(norm, parameters)

    def _finish(self) -> None:
        """What the others do in this window, and this rank has not done."""
        try:
            self.between()
            self.roll.ask_for_unit(0.0)
            self._break_off()
            self._sync.finish()
        except RuntimeError as error:
            self.roll.raise_if_lost(error)
            raise

    def _break_off(self) -> None:
        """Said before this rank takes turns for those it leaves out: the others read on so far."""
        if self._meets and self._sync.owes and not (self.filled or self._parted):
            self._parted = True
            self.roll.call(Meeting.BREAK, handed=self._read)

    def failed(self, error: BaseException) -> str | None:
        """An exception leaves the block. The reason, where it came from another rank."""
        interrupted = isinstance(error, Interrupted)
        if self.roll.broken:
            return None
        self.roll.raise_if_lost(error)
        if not interrupted:
            self.roll.tell(f"raised {type(error).__name__}: {error}")
            if self._sync.stuck and not self._catches_up():
                self.roll.stop_for(f"{type(error).__name__} while the others were computing")
                return None
        late = Health.FAILED_LATE if self._sync.exchanged else Health.FAILED
        self._finish()
        handed = 0 if self._stream is None else self._read
        state = Health.INTERRUPTED if interrupted else late
        statuses = self._closing.call(state, self._stream, handed)
        if not interrupted:
            return None
        reason = failure(statuses, self.roll.notes_left)
        if too_late(statuses):
            raise RankError(f"{reason}: nothing was spent, the weights are as before")
        return reason
