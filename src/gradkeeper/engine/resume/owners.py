"""One owner's state: its model, optimizer, scheduler and scaler, and how often it has stepped."""

from typing import Any

from gradkeeper.checkpoint import UnkeepableError
from gradkeeper.engine.errors import ResumeError
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.resume.modules import bare, module_shape, module_state, restore_module
from gradkeeper.engine.resume.optimizers import (
    optimizer_shape,
    optimizer_state,
    restore_optimizer,
)
from gradkeeper.tree import cloned

State = dict[str, Any]


def owner_state(owner: Owner) -> State:
    return {
        "model": module_state(owner.model),
        "optimizer": optimizer_state(owner.optimizer),
        "scheduler": _scheduler_state(owner),
        "precision": owner.precision.state(),
        "steps": owner.steps,
    }


def restore_owner(owner: Owner, state: State) -> None:
    try:
        restore_module(owner.model, state["model"])
        restore_optimizer(owner.optimizer, state["optimizer"])
    except (RuntimeError, ValueError, KeyError, AttributeError) as error:
        raise ResumeError(f"the state of {owner.name!r} cannot be loaded: {error}") from error
    # After the optimizer, whose groups hold what the scheduler wrote there.
    if owner.schedule.scheduler is not None:
        owner.schedule.scheduler.load_state_dict(cloned(state["scheduler"]))
    owner.precision.restore(state["precision"])
    owner.steps = state["steps"]


def owner_shape(owner: Owner) -> State:
    """What must be equal on resume."""
    names = {id(one): name for name, one in bare(owner.model).named_parameters()}
    scheduler = owner.schedule.scheduler
    return {
        "model": module_shape(owner.model),
        "optimizer": optimizer_shape(owner.optimizer, names),
        "scheduler": "none" if scheduler is None else type(scheduler).__qualname__,
        "precision": owner.precision.name,
    }


def _scheduler_state(owner: Owner) -> Any:
    scheduler = owner.schedule.scheduler
    if scheduler is None:
        return None
    if not hasattr(scheduler, "state_dict") or not hasattr(scheduler, "load_state_dict"):
        raise UnkeepableError(
            f"the scheduler of {owner.name!r}, a {type(scheduler).__name__}, has no state_dict() "
            "and load_state_dict(): it cannot be kept"
        )
    return scheduler.state_dict()
