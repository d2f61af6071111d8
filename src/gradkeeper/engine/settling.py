"""How a window is settled: normalise, unscale, clip, step, tick, zero; or nothing of it.

A window that cannot be spent is refused, with a reason: its gradients are cleared, and the weights
stay as they were.
"""

from dataclasses import dataclass

from gradkeeper.engine.clipping import Touch
from gradkeeper.engine.desk import Desk
from gradkeeper.engine.errors import NonFiniteError
from gradkeeper.engine.gradients import gradients, is_finite, local
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.pending import Pending
from gradkeeper.engine.refusal import NO_WEIGHT, RefusedError
from gradkeeper.engine.scaling import update_scale
from gradkeeper.engine.weights import Tally
from gradkeeper.model import events as ev

OVERFLOW = "the scaled gradients overflowed in float16"


@dataclass(frozen=True, slots=True)
class Outcome:
    stepped: bool
    reason: str | None = None
    """Why no step was taken."""
    grad_norm: float | None = None
    """Of what was spent, before clipping."""


def settle(owner: Owner, pending: Pending, desk: Desk) -> Outcome:
    waived = True
    try:
        norm = prepare(owner, pending, desk)
        waived = False
        owner.optimizer.step()
        finish_step(owner, desk, pending, norm)
        return Outcome(True, grad_norm=norm)
    except RefusedError as refusal:
        return outcome_of(refusal, owner, desk)
    finally:
        zero(owner, desk, waived=waived)


def prepare(owner: Owner, pending: Pending, desk: Desk) -> float:
    """Makes the gradients what a step may spend, and returns their norm before clipping."""
    norm = desk.ranks.measured(owner, pending)
    weights = pending.weights
    assert isinstance(weights, Tally), "measured, so known on the host"
    if not weights.total:
        raise RefusedError(NO_WEIGHT)
    if not norm.finite:
        norm = desk.ranks.reconsidered(norm, gradients(owner.parameters))
        if not norm.finite:
            raise RefusedError(_nonfinite(owner), nonfinite=True)
    _note(owner, desk, owner.clip.finish(owner.parameters, weights.scale, norm))
    return norm.length * weights.scale


def finish_step(owner: Owner, desk: Desk, pending: Pending, norm: float | None) -> None:
    """The step is taken: `pending` and `norm` are what it spent."""
    journal = desk.journal
    loss = pending.mean_loss if journal.patient or pending.on_host else None
    journal.write(ev.Step, optimizer=owner.name, loss=loss, norm=norm)
    owner.steps += 1
    update_scale(owner, journal, finite=True)
    owner.schedule.tick()
    if owner.schedule.name:
        journal.write(ev.Tick, scheduler=owner.schedule.name, optimizer=owner.name)


def outcome_of(refusal: RefusedError, owner: Owner, desk: Desk) -> Outcome:
    """A scaler's overflow is a skip: the scale shrinks. Any other NaN or inf: as the user asked."""
    if not refusal.nonfinite:
        return Outcome(False, refusal.reason)
    if owner.precision.scaler:
        update_scale(owner, desk.journal, finite=False)
        return Outcome(False, refusal.reason)
    if desk.raise_nonfinite:
        raise NonFiniteError(
            f"{refusal.reason}: nothing was spent, the weights are as before. "
            'on_nonfinite="skip" goes on with the next window'
        ) from None
    return Outcome(False, refusal.reason)


def zero(owner: Owner, desk: Desk, *, waived: bool, within: str | None = None) -> None:
    owner.clear()
    desk.ranks.forget()
    desk.journal.write(ev.Zero, accounts=owner.accounts, waived=waived, within=within)


def _note(owner: Owner, desk: Desk, touch: Touch) -> None:
    if touch is Touch.NORMALISED:
        desk.journal.write(ev.Adjust, accounts=owner.accounts)
    if touch is Touch.CLIPPED:
        desk.journal.write(ev.Clip, accounts=owner.accounts, bound=owner.clip.bound)


def _nonfinite(owner: Owner) -> str:
    if owner.precision.scaler:
        return OVERFLOW
    bad = [p for p in owner.parameters if p.grad is not None and not is_finite(local(p.grad))]
    names = owner.names_of(bad)
    if not names:
        return "NaN or inf in the gradient, on another rank"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"NaN or inf in the gradient of {', '.join(names[:3])}{more}"
