"""A window: the `with` block in which losses are credited, and whose end spends them, once."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Literal

from torch import Tensor
from torch.optim import LBFGS

from gradkeeper.engine.backward import Crediting, warn_of_coupled_layers
from gradkeeper.engine.batches import END, MicroBatches
from gradkeeper.engine.close import Outcome, settle, settle_by_closure, zero
from gradkeeper.engine.errors import (
    ClosedWindowError,
    LeftoverError,
    NestedWindowError,
    WindowError,
)
from gradkeeper.engine.loss_weights import LossReduction, Pending, Weight
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.resume.open_window import OpenWindow, kept_gradients
from gradkeeper.engine.shared import Shared
from gradkeeper.model import events as ev

Phase = Literal["new", "open", "closed"]
Closure = Callable[[], object]


class Window:
    """The `with` block in which losses are credited. Leaving it normalises, unscales, clips, steps,
    ticks the scheduler and zeroes: once, in that order."""

    def __init__(
        self,
        owner: Owner,
        shared: Shared,
        *,
        stream: MicroBatches | None = None,
        size: int = 0,
        again: OpenWindow | None = None,
    ) -> None:
        """`again`: it was open when a checkpoint was saved, and goes on from there."""
        self.state: Phase = "new"
        self.size = size
        """How many micro-batches it may read."""
        self.read = 0
        """How many it has read."""
        self._owner = owner
        self._shared = shared
        self._stream = stream
        self._pending = Pending()
        self._again = again
        self._opening = 0
        """Backward calls before its first micro-batch."""
        self._passed = 0
        """How many of those were made before the save, and are not made again."""
        if again is not None:
            self.read = again.read
            self._pending = again.pending
            self._opening = self._passed = again.opening
        self._outcome = Outcome(False)
        self._block: AbstractContextManager[object] = nullcontext()
        self._crediting = Crediting(owner)
        self._step = 0
        self._closure: Closure | None = None
        self._evaluating = False
        self._kept: list[Any] = []
        """Micro-batches read by a closure, which reads them again at each evaluation."""

    # What it knows

    @property
    def owner(self) -> str:
        """Whose parameters it credits."""
        return self._owner.name

    @property
    def step(self) -> int:
        """Steps that its owner has taken so far; this one's included once it is closed."""
        return self._step if self.state == "closed" else self._owner.steps

    @property
    def stepped(self) -> bool:
        """Whether its step was taken."""
        return self._outcome.stepped

    @property
    def reason(self) -> str | None:
        """Why it took no step."""
        return self._outcome.reason

    @property
    def grad_norm(self) -> float | None:
        """The norm of what was spent, before clipping; None if nothing was."""
        return self._outcome.grad_norm

    @property
    def loss(self) -> float | None:
        """The weighted mean of its losses so far. Reading it waits for the device."""
        return self._pending.mean_loss()

    @property
    def weight(self) -> float:
        """The sum of the weights so far."""
        return float(self._pending.tally.total)

    # The block

    def __enter__(self) -> "Window":
        if self.state != "new":
            raise ClosedWindowError("a window is used once: take the next one, or engine.window()")
        if self._shared.open is not None:
            raise NestedWindowError(
                f"a window of {self._shared.open.owner!r} is still open: windows do not nest, "
                "because gradients of both would lie in the same place"
            )
        if self._shared.aside:
            raise WindowError(
                "nothing is trained inside engine.aside(), whose random numbers are taken back "
                "and which a signal may cut off: leave its block first"
            )
        self._shared.ranks.forget()
        self._owner.open(self._shared.journal.here())
        again, self._again = self._again, None
        if again is not None:
            self._go_on(again)
        self._shared.ranks.open(self, self._stream)
        if again is not None:
            self._shared.ranks.go_on(again.ranks)
        self._shared.open = self
        self._shared.faulted = False
        self.state = "open"
        self._block = self._owner.precision.block(self._owner.device)
        self._block.__enter__()
        self._shared.leftovers.open(self, self._owner)
        return self

    def _go_on(self, again: OpenWindow) -> None:
        again.restore_gradients(self._owner)
        self._shared.journal.write(ev.Restore, accounts=self._owner.accounts, gradients=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._shared.leftovers.close()
        self._block.__exit__(kind, error, trace)
        self._shared.journal.here()
        theirs = False
        leftover = self._leftover() if error is None and self._closure is None else None
        try:
            if error is not None:
                self._shared.faulted = True
                theirs = self._discard(error)
            elif leftover is not None:
                self._shared.faulted = True
                self._discard(leftover)
                raise leftover
            elif self._closure is not None:
                self._settle_by_closure(self._closure)
            else:
                self._settle()
        except BaseException as fault:
            self._outcome = Outcome(False, f"{type(fault).__name__}: {fault}")
            raise
        finally:
            self._end()
        if error is None or theirs:
            self._shared.closed(self)
        return theirs

    def _settle(self) -> None:
        if self._pending.credits and isinstance(self._owner.optimizer, LBFGS):
            self._discard(None)
            raise WindowError(
                "LBFGS evaluates the loss itself: put the backward calls into a function and "
                "decorate it with @window.closure"
            )
        self._outcome = settle(self._owner, self._pending, self._shared)

    def _settle_by_closure(self, closure: Closure) -> None:
        def evaluate() -> Pending:
            self._pending = Pending()
            with self._owner.precision.block(self._owner.device, cache=False):
                self._shared.leftovers.open(self, self._owner)
                try:
                    closure()
                    self._refuse_leftovers()
                except BaseException as error:
                    self._shared.ranks.failed(error)
                    raise
                finally:
                    self._shared.leftovers.close()
            return self._pending

        self._evaluating = True
        self._outcome, self._pending = settle_by_closure(self._owner, self._shared, evaluate)

    def _leftover(self) -> LeftoverError | None:
        """What was done to its gradients behind its back."""
        if self._pending.torn is not None:
            return None
        wrong = self._shared.leftovers.found()
        if wrong is None and self._pending.credits:
            wrong = self._crediting.lost(self._shared.journal.site)
        return None if wrong is None else LeftoverError(wrong)

    def _discard(self, error: BaseException | None) -> bool:
        """True if the error was another rank's, and is dealt with."""
        try:
            if error is None:
                return False
            self._shared.journal.write(ev.Fault, accounts=self._owner.accounts)
            theirs = self._shared.ranks.failed(error)
            self._outcome = Outcome(False, theirs or f"{type(error).__name__} left the block")
            return theirs is not None
        finally:
            zero(self._owner, self._shared, waived=True)

    def _end(self) -> None:
        self._shared.ranks.close()
        self.state = "closed"
        self._step = self._owner.steps
        self._shared.open = None
        self._closure = None
        self._kept.clear()

    # What is kept of it in mid-window

    @property
    def resumable(self) -> bool:
        """Whether another process could go on with it now."""
        alone = self._stream is not None and self._closure is None
        return alone and self._shared.ranks.may_save(self)

    @property
    def credited(self) -> bool:
        return self._pending.counted > 0

    @property
    def credits(self) -> int:
        """Backward calls that reached the gradients."""
        return self._pending.credits

    def kept(self) -> OpenWindow:
        return OpenWindow(
            self.size,
            self.read,
            self._opening,
            self._pending,
            kept_gradients(self._owner),
            self._shared.ranks.window_state(),
        )

    # Its micro-batches

    def __iter__(self) -> Iterator[Any]:
        """Those not read yet, at most `size`; in a closure, all of them each time."""
        self._must_be_open("read")
        if self._stream is None:
            raise WindowError(
                "this window has no loader: loop over your own batches, "
                "or take windows from engine.windows(loader)"
            )
        return self._micro_batches(self._stream)

    def _micro_batches(self, stream: MicroBatches) -> Iterator[Any]:
        yield from self._kept
        while self.read < self.size:
            self._must_be_open("read")
            if not stream.goes_on():
                return
            if self._shared.asked and self.resumable and stream.between:
                self._shared.boundary()
            self._passed = 0
            batch = stream.read()
            if batch is END:
                return
            self.read += 1
            if self._evaluating:
                self._kept.append(batch)
            yield batch
            del batch

    # Its losses

    def closure(self, function: Closure) -> Closure:
        """Lets the optimizer evaluate the window's backward calls as often as it asks (LBFGS).

        function: takes nothing, and makes all of the window's backward calls; for a decorator.
        """
        self._must_be_open("given a closure")
        if self._owner.precision.scaler:
            raise WindowError("closures cannot be used in fp16: use bf16 or fp32")
        if self._closure is not None or self._pending.counted:
            raise WindowError("a window has one closure, and then all backward calls are inside it")
        self._shared.ranks.by_closure()
        self._closure = function
        return function

    def backward(
        self,
        loss: Tensor,
        weight: Weight | None = None,
        *,
        reduction: LossReduction = "mean",
        counts: bool = True,
        retain_graph: bool | None = None,
    ) -> None:
        """Credits a loss: a mean over `weight` items, or with reduction="sum" a sum over them.

        loss: a tensor of one number.
        weight: how many items it speaks of, a number or a tensor without dimensions; 1 if left
            out. What is spent is the mean over all items of the window, and of all ranks. A loss of
            weight 0 adds nothing, even if it is NaN.
        reduction: "mean", or "sum" where the loss is a sum over its items.
        counts: False for a further loss over the items of the call before (auxiliary, real and fake
            halves): it takes that call's weight, and adds nothing to the divisor.
        retain_graph: passed on to torch, for a graph that a later loss goes through again.
        """
        if self.state != "open":
            self._must_be_open("credited")
        self._shared.journal.here()
        if self._closure is not None and not self._evaluating:
            raise WindowError("this window has a closure: its backward calls belong inside it")
        if self._passed:
            self._passed -= 1
            return
        if not self.read:
            self._opening += 1
        pending, ranks, leftovers = self._pending, self._shared.ranks, self._shared.leftovers
        if leftovers.unknown or (pending.credits and self._crediting.gone):
            self._refuse_leftovers()
        weight = ranks.weighed(pending, weight, counts=counts)
        factor = pending.weigh(loss, weight, reduction, counts=counts)
        if not self._shared.told_of_coupling:
            self._look_for_coupling()
        if isinstance(factor, float) and not factor:
            # Not multiplied by 0: where a derivative is inf, as that of sqrt(0), 0 times it is NaN.
            ranks.credit_nothing(self._crediting, loss, retain_graph=retain_graph)
            return
        leftovers.ours = True
        try:
            first = pending.credits == 0
            self._crediting.run(loss, factor, retain_graph=retain_graph, first=first)
            self._crediting.site = self._shared.journal.site
        except BaseException as error:
            pending.torn = f"{type(error).__name__}: {error}"
            self._shared.journal.write(ev.Fault, accounts=self._owner.accounts, torn=True)
            ranks.torn(error)
            raise
        finally:
            leftovers.ours = False
        pending.credits += 1
        pending.add_loss(loss, factor)
        self._note(weight, reduction, ranks.credited())

    def _refuse_leftovers(self) -> None:
        leftover = self._leftover()
        if leftover is not None:
            self._pending.torn = str(leftover)
            raise leftover

    def _note(self, weight: Weight | None, reduction: LossReduction, synced: bool | None) -> None:
        owner = self._owner
        if owner.precision.scaler:
            self._shared.journal.write(ev.Scale, scaler=owner.precision.scaler)
        self._shared.journal.write(
            ev.Backward,
            accounts=owner.accounts,
            reduction=reduction,
            items=weight if isinstance(weight, int) else None,
            scaler=owner.precision.scaler,
            autocast=owner.precision.autocast,
            synced=synced,
            within=owner.name if self._evaluating else None,
        )

    def _look_for_coupling(self) -> None:
        parts = self.read if self._stream else self._pending.counted
        if parts > 1:
            self._shared.told_of_coupling = True
            warn_of_coupled_layers(self._owner.model, self._shared.journal.site)

    def _must_be_open(self, what: str) -> None:
        if self.state != "open":
            when = "after" if self.state == "closed" else "before"
            raise ClosedWindowError(f"a window is {what} inside its `with` block, not {when} it")
