"""Steps of optimizers that evaluate the loss themselves, as LBFGS does."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from gradkeeper.engine.desk import Desk
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.pending import Pending
from gradkeeper.engine.refusal import RefusedError
from gradkeeper.engine.settling import Outcome, finish_step, outcome_of, prepare, zero


class Snapshot:
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

    def __init__(self, owner: Owner, desk: Desk, evaluate: Callable[[], Pending]) -> None:
        self._owner = owner
        self._desk = desk
        self._evaluate = evaluate
        self._site = desk.journal.site
        self.first: Pending | None = None
        """The evaluation at the weights before the step: the window's loss and norm are its."""
        self.norm: float | None = None

    def __call__(self) -> Tensor:
        zero(self._owner, self._desk, waived=False, within=self._owner.name)
        with torch.enable_grad():
            pending = self._evaluate()
        # The closure's backward calls have lines of their own; the rest happens at the window's.
        self._desk.journal.site = self._site
        norm = prepare(self._owner, pending, self._desk)
        if self.first is None:
            self.first, self.norm = pending, norm
        assert pending.loss is not None, "prepare refuses a window without a loss"
        return pending.loss * (pending.weights.first / pending.weights.total)


def settle_by_closure(
    owner: Owner, desk: Desk, evaluate: Callable[[], Pending]
) -> tuple[Outcome, Pending]:
    evaluations = Evaluations(owner, desk, evaluate)
    before = Snapshot(owner)
    try:
        owner.optimizer.step(evaluations)  # type: ignore[arg-type]
        finish_step(owner, desk, evaluations.first or Pending(), evaluations.norm)
        outcome = Outcome(True, grad_norm=evaluations.norm)
    except RefusedError as refusal:
        before.restore()
        outcome = outcome_of(refusal, owner, desk)
    except BaseException:
        before.restore()
        raise
    finally:
        zero(owner, desk, waived=evaluations.first is None)
    return outcome, evaluations.first or Pending()
