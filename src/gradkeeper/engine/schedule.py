"""What ticks once per step taken: nothing, or a scheduler. Those fed by a metric are the user's."""

import sys
import weakref
from typing import Any, Protocol

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.journal import warn_at
from gradkeeper.model import Site

PATIENT = 2
"""Epochs without a metric that may be on purpose: not everybody validates after each."""


class Schedule(Protocol):
    name: str | None
    """On the tape; None where nothing ticks."""
    scheduler: Any
    """Whose state is kept; None where there is none."""

    def tick(self) -> None:
        """A step was taken."""

    def begin_epoch(self, site: Site) -> None: ...


class NoSchedule:
    name: str | None = None
    scheduler: Any = None

    def tick(self) -> None:
        return

    def begin_epoch(self, site: Site) -> None:
        return


class FedByMetric:
    """Its metric is the user's, and so are its ticks. Whoever leaves them out is told."""

    name: str | None = None

    def __init__(self, scheduler: Any, owner: str) -> None:
        self.scheduler = scheduler
        self._epochs = 0
        self._reminder = Reminder(scheduler, owner)
        weakref.finalize(self, self._reminder.tell_end)

    def tick(self) -> None:
        self._reminder.due = True

    def begin_epoch(self, site: Site) -> None:
        self._epochs += 1
        if self._epochs > PATIENT and self._reminder.due:
            self._reminder.due = False
            if not self.scheduler.last_epoch:
                warn_at(site, self._reminder.text)


class Reminder:
    def __init__(self, scheduler: Any, owner: str) -> None:
        kind = type(scheduler).__name__
        self.text = (
            f"{kind}, the scheduler of {owner!r}, has never been stepped: its metric is yours. "
            "Call scheduler.step(validation_loss) after each validation, between windows; the "
            "engine keeps its state"
        )
        self.due = False
        """Whether steps were taken, and nobody has been told."""
        self._scheduler = scheduler

    def tell_end(self) -> None:
        if self.due and not self._scheduler.last_epoch and sys.stderr is not None:
            print(f"gradkeeper: {self.text}", file=sys.stderr, flush=True)


class Ticking:
    name: str | None = "scheduler"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler

    def tick(self) -> None:
        self.scheduler.step()

    def begin_epoch(self, site: Site) -> None:
        return


def schedule_of(scheduler: Any, optimizer: Optimizer, owner: str) -> Schedule:
    if scheduler is None:
        return NoSchedule()
    if getattr(scheduler, "optimizer", optimizer) is not optimizer:
        raise SetupError(f"the scheduler of {owner!r} was built for another optimizer than its own")
    if isinstance(scheduler, ReduceLROnPlateau):
        return FedByMetric(scheduler, owner)
    return Ticking(scheduler)
