"""A window's end: normalise, unscale, clip, step, tick, zero; or nothing of it.

A window that cannot be spent is refused, with a reason: its gradients are cleared, and the weights
stay as they were. Optimizers that evaluate the loss themselves, as LBFGS does, do the same as often
as they ask.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gradkeeper.engine.errors import NonFiniteError
from gradkeeper.engine.gradients import Norm, Touch, gradients, is_finite, local, total_norm
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.loss_weights import Pending, Tally
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.shared import Shared
from gradkeeper.model import events as ev

# Why a window is not spent.


NO_BACKWARD = "no backward in this window"
ANOTHER_BACKWARD = "gradients are there, but none from window.backward(loss): they are cleared"
NO_WEIGHT = "the weights of this window add up to 0"
NO_GRADIENT = "no parameter of the optimizer has a gradient"


class RefusedError(Exception):
    """A window that must not be spent."""

    def __init__(self, reason: str, *, nonfinite: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.nonfinite = nonfinite


def refuse_empty(pending: Pending, *, held: bool) -> None:
    if pending.torn is not None:
        raise RefusedError(f"a backward failed half-way: {pending.torn}")
    if not pending.counted:
        raise RefusedError(ANOTHER_BACKWARD if held else NO_BACKWARD)
    if not pending.credits:
        raise RefusedError(NO_WEIGHT)
    if not held:
        raise RefusedError(NO_GRADIENT)


# The loss scale: taken out before a step is weighed, changed after it. Written down both times.


def unscale(owner: Owner, journal: Journal) -> None:
    owner.precision.unscale(owner.optimizer)
    if owner.precision.scaler:
        journal.write(ev.Unscale, scaler=owner.precision.scaler, optimizer=owner.name)


def update_scale(owner: Owner, journal: Journal, *, finite: bool) -> None:
    if owner.precision.scaler:
        journal.write(ev.Update, scaler=owner.precision.scaler)
    owner.precision.settle(finite=finite)


# How a window is settled.


OVERFLOW = "the scaled gradients overflowed in float16"


@dataclass(frozen=True, slots=True)
class Outcome:
    stepped: bool
    reason: str | None = None
    """Why no step was taken."""
    grad_norm: float | None = None
    """Of what was spent, before clipping."""


def settle(owner: Owner, pending: Pending, shared: Shared) -> Outcome:
    waived = True
    try:
        norm = prepare(owner, pending, shared)
        waived = False
        owner.optimizer.step()
        finish_step(owner, shared, pending, norm)
        return Outcome(True, grad_norm=norm)
    except RefusedError as refusal:
        return outcome_of(refusal, owner, shared)
    finally:
        zero(owner, shared, waived=waived)


def measured(owner: Owner, pending: Pending, journal: Journal) -> Norm:
    """The norm of what lies in the gradients of one process, and its weights, as numbers."""
    held = gradients(owner.parameters)
    refuse_empty(pending, held=bool(held))
    unscale(owner, journal)
    tensor = total_norm(held)
    length, pending.tally = pending.tally.settled(tensor)
    return Norm(tensor, length)


def prepare(owner: Owner, pending: Pending, shared: Shared) -> float:
    """Makes the gradients what a step may spend, and returns their norm before clipping."""
    norm = shared.ranks.measured(owner, pending)
    tally = pending.tally
    assert isinstance(tally, Tally), "measured, so known on the host"
    if not tally.total:
        raise RefusedError(NO_WEIGHT)
    if not norm.finite:
        norm = shared.ranks.reconsidered(norm, owner.parameters)
        if not norm.finite:
            raise RefusedError(_nonfinite(owner), nonfinite=True)
    _note(owner, shared, owner.clip.finish(owner.parameters, tally.scale, norm))
    return norm.length * tally.scale


def finish_step(owner: Owner, shared: Shared, pending: Pending, norm: float | None) -> None:
    """The step is taken: `pending` and `norm` are what it spent."""
    journal = shared.journal
    loss = pending.mean_loss if journal.patient or pending.on_host else None
    journal.write(ev.Step, optimizer=owner.name, loss=loss, norm=norm)
    owner.steps += 1
    shared.ranks.stepped(owner)
    update_scale(owner, journal, finite=True)
    owner.schedule.tick()
    if owner.schedule.name:
        journal.write(ev.Tick, scheduler=owner.schedule.name, optimizer=owner.name)


def outcome_of(refusal: RefusedError, owner: Owner, shared: Shared) -> Outcome:
    """A scaler's overflow is a skip: the scale shrinks. Any other NaN or inf: as the user asked."""
    if not refusal.nonfinite:
        return Outcome(False, refusal.reason)
    if owner.precision.scaler:
        update_scale(owner, shared.journal, finite=False)
        return Outcome(False, refusal.reason)
    if shared.raise_nonfinite:
        raise NonFiniteError(
            f"{refusal.reason}: nothing was spent, the weights are as before. "
            'on_nonfinite="skip" goes on with the next window'
        ) from None
    return Outcome(False, refusal.reason)


def zero(owner: Owner, shared: Shared, *, waived: bool, within: str | None = None) -> None:
    owner.clear()
    shared.ranks.forget()
    shared.journal.write(ev.Zero, accounts=owner.accounts, waived=waived, within=within)


def _note(owner: Owner, shared: Shared, touch: Touch) -> None:
    if touch is Touch.NORMALISED:
        shared.journal.write(ev.Adjust, accounts=owner.accounts)
    if touch is Touch.CLIPPED:
        shared.journal.write(ev.Clip, accounts=owner.accounts, bound=owner.clip.bound)


def _nonfinite(owner: Owner) -> str:
    if owner.precision.scaler:
        return OVERFLOW
    bad = [p for p in owner.parameters if p.grad is not None and not is_finite(local(p.grad))]
    names = owner.names_of(bad)
    if not names:
        return "NaN or inf in the gradient, on another rank"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"NaN or inf in the gradient of {', '.join(names[:3])}{more}"


# By closure.


class BeforeStep:
    """Weights and optimizer state before the step: by the time one fails, both have moved."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._weights = [p.detach().clone() for p in owner.parameters]
        self._state = copy.deepcopy(owner.optimizer.state_dict())

    def restore(self) -> None:
        with torch.no_grad():
            for parameter, weight in zip(self._owner.parameters, self._weights, strict=True):
                parameter.copy_(weight)
        self._owner.optimizer.load_state_dict(self._state)


class Evaluations:
    """The closure handed to the optimizer: zero, call, normalise, as often as it asks."""

    def __init__(self, owner: Owner, shared: Shared, evaluate: Callable[[], Pending]) -> None:
        self._owner = owner
        self._shared = shared
        self._evaluate = evaluate
        self._site = shared.journal.site
        self.first: Pending | None = None
        """The evaluation at the weights before the step: the window's loss and norm are its."""
        self.norm: float | None = None

    def __call__(self) -> Tensor:
        zero(self._owner, self._shared, waived=False, within=self._owner.name)
        with torch.enable_grad():
            pending = self._evaluate()
        # The closure's backward calls have lines of their own; the rest happens at the window's.
        self._shared.journal.site = self._site
        norm = prepare(self._owner, pending, self._shared)
        if self.first is None:
            self.first, self.norm = pending, norm
        assert pending.loss is not None, "prepare refuses a window without a loss"
        return pending.loss * (pending.tally.first / pending.tally.total)


def settle_by_closure(
    owner: Owner, shared: Shared, evaluate: Callable[[], Pending]
) -> tuple[Outcome, Pending]:
    evaluations = Evaluations(owner, shared, evaluate)
    before = BeforeStep(owner)
    try:
        owner.optimizer.step(evaluations)  # type: ignore[arg-type]
        finish_step(owner, shared, evaluations.first or Pending(), evaluations.norm)
        outcome = Outcome(True, grad_norm=evaluations.norm)
    except RefusedError as refusal:
        before.restore()
        outcome = outcome_of(refusal, owner, shared)
    except BaseException:
        before.restore()
        raise
    finally:
        zero(owner, shared, waived=evaluations.first is None)
    return outcome, evaluations.first or Pending()
