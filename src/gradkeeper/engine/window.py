"""A window: the `with` block in which losses are credited, and whose end spends them, once."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Literal

from torch import Tensor
from torch.optim import LBFGS

from gradkeeper.engine.closure import settle_by_closure
from gradkeeper.engine.coupled import warn_of_coupled_layers
from gradkeeper.engine.crediting import Crediting
from gradkeeper.engine.desk import Desk
from gradkeeper.engine.errors import (
    ClosedWindowError,
    LeftoverError,
    NestedWindowError,
    WindowError,
)
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.pending import Pending, Reduction
from gradkeeper.engine.ranks import EvenStream
from gradkeeper.engine.resume.open_window import OpenWindow, kept_gradients
from gradkeeper.engine.settling import Outcome, settle, zero
from gradkeeper.engine.stream import END, Stream
from gradkeeper.engine.weights import Weight
from gradkeeper.model import events as ev

State = Literal["new", "open", "closed"]
Closure = Callable[[], object]


class Window:
    """The `with` block in which losses are credited. Leaving it normalises, unscales, clips, steps,
    ticks the scheduler and zeroes: once, in that order."""

    def __init__(
        self,
        owner: Owner,
        desk: Desk,
        *,
        stream: Stream | EvenStream | None = None,
        size: int = 0,
        again: OpenWindow | None = None,
    ) -> None:
        """`again`: it was open when a checkpoint was saved, and goes on from there."""
        self.state: State = "new"
        self.size = size
        """How many micro-batches it may read."""
        self.read = 0
        """How many it has read."""
        self._owner = owner
        self._desk = desk
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
        return float(self._pending.weights.total)

    # The block

    def __enter__(self) -> "Window":
        if self.state != "new":
            raise ClosedWindowError("a window is used once: take the next one, or engine.window()")
        if self._desk.open is not None:
            raise NestedWindowError(
                f"a window of {self._desk.open.owner!r} is still open: windows do not nest, "
                "because gradients of both would lie in the same place"
            )
        self._desk.ranks.forget()
        self._owner.open(self._desk.journal.here())
        again, self._again = self._again, None
        if again is not None:
            self._go_on(again)
        self._desk.ranks.open(self, self._stream)
        if again is not None:
            self._desk.ranks.go_on(again.ranks)
        self._desk.open = self
        self._desk.faulted = False
        self.state = "open"
        self._block = self._owner.precision.block(self._owner.device)
        self._block.__enter__()
        self._desk.leftovers.open(self, self._owner)
        return self

    def _go_on(self, again: OpenWindow) -> None:
        again.restore_gradients(self._owner)
        self._desk.journal.write(ev.Restore, accounts=self._owner.accounts, gradients=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._desk.leftovers.close()
        self._block.__exit__(kind, error, trace)
        self._desk.journal.here()
        theirs = False
        leftover = self._leftover() if error is None and self._closure is None else None
        try:
            if error is not None:
                self._desk.faulted = True
                theirs = self._discard(error)
            elif leftover is not None:
                self._desk.faulted = True
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
            self._desk.closed(self)
        return theirs

    def _settle(self) -> None:
        if self._pending.credits and isinstance(self._owner.optimizer, LBFGS):
            self._discard(None)
            raise WindowError(
                "LBFGS evaluates the loss itself: put the backward calls into a function and "
                "decorate it with @window.closure"
            )
        self._outcome = settle(self._owner, self._pending, self._desk)

    def _settle_by_closure(self, closure: Closure) -> None:
        def evaluate() -> Pending:
            self._pending = Pending()
            with self._owner.precision.block(self._owner.device, cache=False):
                self._desk.leftovers.open(self, self._owner)
                try:
                    closure()
                    self._refuse_leftovers()
                except BaseException as error:
                    self._desk.ranks.failed(error)
                    raise
                finally:
                    self._desk.leftovers.close()
            return self._pending

        self._evaluating = True
        self._outcome, self._pending = settle_by_closure(self._owner, self._desk, evaluate)

    def _leftover(self) -> LeftoverError | None:
        """What was done to its gradients behind its back."""
        if self._pending.torn is not None:
            return None
        wrong = self._desk.leftovers.found()
        if wrong is None and self._pending.credits:
            wrong = self._crediting.lost(self._desk.journal.site)
        return None if wrong is None else LeftoverError(wrong)

    def _discard(self, error: BaseException | None) -> bool:
        """True if the error was another rank's, and is dealt with."""
        try:
            if error is None:
                return False
            self._desk.journal.write(ev.Fault, accounts=self._owner.accounts)
            theirs = self._desk.ranks.failed(error)
            self._outcome = Outcome(False, theirs or f"{type(error).__name__} left the block")
            return theirs is not None
        finally:
            zero(self._owner, self._desk, waived=True)

    def _end(self) -> None:
        self._desk.ranks.close()
        self.state = "closed"
        self._step = self._owner.steps
        self._desk.open = None
        self._closure = None
        self._kept.clear()

    # What is kept of it in mid-window

    @property
    def resumable(self) -> bool:
        """Whether another process could go on with it now."""
        alone = self._stream is not None and self._closure is None
        return alone and self._desk.ranks.may_save(self)

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
            self._desk.ranks.window_state(),
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

    def _micro_batches(self, stream: Stream | EvenStream) -> Iterator[Any]:
        yield from self._kept
        while self.read < self.size:
            self._must_be_open("read")
            if not stream.goes_on():
                return
            if self._desk.asked and self.resumable and stream.between:
                self._desk.boundary()
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
        self._desk.ranks.by_closure()
        self._closure = function
        return function

    def backward(
        self,
        loss: Tensor,
        weight: Weight | None = None,
        *,
        reduction: Reduction = "mean",
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
        self._desk.journal.here()
        if self._closure is not None and not self._evaluating:
            raise WindowError("this window has a closure: its backward calls belong inside it")
        if self._passed:
            self._passed -= 1
            return
        if not self.read:
            self._opening += 1
        pending, ranks, leftovers = self._pending, self._desk.ranks, self._desk.leftovers
        if leftovers.unknown or (pending.credits and self._crediting.gone):
            self._refuse_leftovers()
        weight = ranks.weighed(pending, weight, counts=counts)
        factor = pending.weigh(loss, weight, reduction, counts=counts)
        if not self._desk.told_of_coupling:
            self._look_for_coupling()
        if isinstance(factor, float) and not factor:
            # Not multiplied by 0: where a derivative is inf, as that of sqrt(0), 0 times it is NaN.
            ranks.credit_nothing(self._crediting, loss, retain_graph=retain_graph)
            return
        leftovers.ours = True
        try:
            first = pending.credits == 0
            self._crediting.run(loss, factor, retain_graph=retain_graph, first=first)
            self._crediting.site = self._desk.journal.site
        except BaseException as error:
            pending.torn = f"{type(error).__name__}: {error}"
            self._desk.journal.write(ev.Fault, accounts=self._owner.accounts, torn=True)
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

    def _note(self, weight: Weight | None, reduction: Reduction, synced: bool | None) -> None:
        owner = self._owner
        if owner.precision.scaler:
            self._desk.journal.write(ev.Scale, scaler=owner.precision.scaler)
        self._desk.journal.write(
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
            self._desk.told_of_coupling = True
            warn_of_coupled_layers(self._owner.model, self._desk.journal.site)

    def _must_be_open(self, what: str) -> None:
        if self.state != "open":
            when = "after" if self.state == "closed" else "before"
            raise ClosedWindowError(f"a window is {what} inside its `with` block, not {when} it")
