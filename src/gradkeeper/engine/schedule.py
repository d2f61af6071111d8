"""What ticks once per step taken: nothing, or a scheduler. Those fed by a metric are the user's."""

from typing import Any, Protocol

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from gradkeeper.engine.errors import SetupError


class Schedule(Protocol):
    name: str | None
    """On the tape; None where nothing ticks."""
    scheduler: Any
    """Whose state is kept; None where there is none."""

    def tick(self) -> None: ...


class NoSchedule:
    name: str | None = None

    def __init__(self, scheduler: Any = None) -> None:
        self.scheduler = scheduler

    def tick(self) -> None:
        return


class Ticking:
    name: str | None = "scheduler"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler

    def tick(self) -> None:
        self.scheduler.step()


def schedule_of(scheduler: Any, optimizer: Optimizer, owner: str) -> Schedule:
    if scheduler is None or isinstance(scheduler, ReduceLROnPlateau):
        return NoSchedule(scheduler)
    if getattr(scheduler, "optimizer", optimizer) is not optimizer:
        raise SetupError(f"the scheduler of {owner!r} was built for another optimizer than its own")
    return Ticking(scheduler)
