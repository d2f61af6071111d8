"""The loss scale: taken out before a step is weighed, changed after it. Written down both times."""

from gradkeeper.engine.journal import Journal
from gradkeeper.engine.owner import Owner
from gradkeeper.model import events as ev


def unscale(owner: Owner, journal: Journal) -> None:
    owner.precision.unscale(owner.optimizer)
    if owner.precision.scaler:
        journal.write(ev.Unscale, scaler=owner.precision.scaler, optimizer=owner.name)


def update_scale(owner: Owner, journal: Journal, *, finite: bool) -> None:
    if owner.precision.scaler:
        journal.write(ev.Update, scaler=owner.precision.scaler)
    owner.precision.settle(finite=finite)
