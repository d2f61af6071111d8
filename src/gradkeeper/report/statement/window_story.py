"""One window as a statement tells it: what came in, what went out, and what was left."""

from dataclasses import dataclass, field
from typing import NamedTuple

from gradkeeper.model import Entry, Event, Site
from gradkeeper.model import events as ev
from gradkeeper.model.account import Account

MOST_LINES = 120
"""Lines of one window; a loop that never steps would fill the page."""

OPEN, SPENT, SKIPPED = "open", "spent", "skipped"


class StoryLine(NamedTuple):
    """One line of the statement. `waiting`: backwards in .grad after it, not spent yet."""

    kind: str
    site: Site
    words: str
    credit: int = 0
    debit: int = 0
    lost: int = 0
    waiting: int = 0
    left: bool = False
    """What was spent still lies in .grad."""
    times: int = 1

    def says_same(self, other: "StoryLine") -> bool:
        return (self.kind, self.site, self.words) == (other.kind, other.site, other.words)

    def joined(self, later: "StoryLine") -> "StoryLine":
        """Both as one line, counted."""
        return later._replace(
            times=self.times + later.times,
            credit=self.credit + later.credit,
            debit=self.debit + later.debit,
            lost=self.lost + later.lost,
        )


class Shape(NamedTuple):
    """A window's story as a value: most windows of a run share a few of them."""

    lane: int
    ended: str
    epoch: bool
    batches: int
    closed: bool
    pins: tuple[int, ...]
    lines: tuple[StoryLine, ...]
    more: int


@dataclass(slots=True, eq=False)
class Story:
    """What happened in one lane up to a step, and what closed the account after it."""

    lane: int
    lines: list[StoryLine] = field(default_factory=list)
    ended: str = OPEN
    pins: set[int] = field(default_factory=set)
    """Findings, by their place in the report."""
    batches: set[int] = field(default_factory=set)
    epoch: bool = False
    closed: bool = False
    """What it spent was zeroed, if only after other backwards had come."""
    place: int = 0
    """Of its step, among the events of its rank."""
    more: int = 0

    shape: int | None = None
    """Among the shapes of the statement, once nothing more can happen to it."""

    def add(self, line: StoryLine) -> None:
        if self.lines and not self.more and self.lines[-1].says_same(line):
            self.lines[-1] = self.lines[-1].joined(line)
            return
        if len(self.lines) == MOST_LINES:
            self.more += 1
            return
        self.lines.append(line)

    def told(self) -> Shape:
        return Shape(
            lane=self.lane,
            ended=self.ended,
            epoch=self.epoch,
            batches=len(self.batches),
            closed=self.closed,
            pins=tuple(sorted(self.pins)),
            lines=tuple(self.lines),
            more=self.more,
        )

    def settle(self, shape: int) -> None:
        """It is told: only its shape is kept."""
        self.shape = shape
        self.lines, self.pins, self.batches = [], set(), set()


def line_of(entry: Entry[Event], owner: str, mine: dict[str, Account]) -> StoryLine | None:
    """The line that an event makes in one owner's lane; None for what is no movement.

    `mine` are the owner's accounts among those concerned, as they were before.
    """
    event = entry.event
    pending = len({number for account in mine.values() for number in account.fresh})
    credit = debit = lost = 0
    match event:
        case ev.Backward():
            words, credit = _of_backward(event), 1
        case ev.Assign():
            words, credit, debit = "gradients put in place by hand", 1, pending
        case ev.Step(taken=False):
            words = f"{_through(event)}skipped: the scaler found inf or NaN"
        case ev.Step():
            stale = any(account.stale_for(owner) for account in mine.values())
            words, debit = _of_step(entry, event, pending, stale=stale), pending
        case ev.Move(gradient=True):
            words, debit = "weights moved by hand along the gradient", pending
        case ev.Zero():
            lost = sum(waste.count for waste in entry.wasted)
            words, debit = _of_zero(event, pending, lost), pending
        case _:
            words = _of_other(event) or ""
    if not words:
        return None
    kind = type(event).__name__.lower()
    return StoryLine(kind, event.site, words, credit=credit, debit=debit, lost=lost)


def _of_backward(event: ev.Backward) -> str:
    said = [{"mean": "a mean loss", "sum": "a summed loss", None: "a loss"}[event.reduction]]
    if event.multiplier is not None and event.multiplier != 1:
        said[0] += f" {_weight(event.multiplier)}"
    if event.twice:
        said.append(f"divided by {event.twice} two times over")
    if event.scaler:
        said.append(f"scaled by {event.scaler}")
    if event.autocast:
        said.append(f"{event.autocast} autocast")
    if event.synced is not None:
        said.append("synced across ranks" if event.synced else "not synced")
    if event.ignored:
        said.append("some items ignored")
    if event.leaf:
        said.append("also reaches an input")
    if event.within:
        said.append(f"inside {event.within}'s step")
    return ", ".join(said)


def _weight(multiplier: float) -> str:
    whole = round(1 / multiplier) if multiplier else 0
    if whole > 1 and abs(whole * multiplier - 1) < 1e-6:
        return f"÷ {whole}"
    return f"times {multiplier:g}"


def _through(event: ev.Step) -> str:
    return f"through {event.scaler}, " if event.scaler else ""


def _of_step(entry: Entry[Event], event: ev.Step, pending: int, *, stale: bool) -> str:
    words = f"spends {pending} backward call{'s' * (pending != 1)}"
    if not pending:
        words = "nothing to spend" if entry.empty else "spends nothing new"
    if stale:
        words += ", and again what was spent before"
    if event.finite is False:
        words += ", with NaN or inf in it"
    return _through(event) + words


def _of_zero(event: ev.Zero, pending: int, lost: int) -> str:
    words = "account closed" if event.to_none else "account closed, gradients set to 0"
    if lost:
        return f"{words}: {lost} unspent thrown away"
    if pending:
        why = "waived" if event.waived else "not in vain"
        return f"{words}: {pending} dropped here, {why}"
    return words


def _of_other(event: Event) -> str | None:
    match event:
        case ev.Move():
            return "weights moved by hand"
        case ev.Adjust():
            return "gradients changed by hand"
        case ev.Reduce():
            return "ranks exchange their gradients"
        case ev.Unscale():
            return f"{event.scaler}'s factor taken out"
        case ev.Update():
            return f"{event.scaler} chooses its next factor"
        case ev.Clip():
            if event.bound is None:
                return "clipped"
            return "norm measured" if event.bound == float("inf") else f"clipped to {event.bound:g}"
        case ev.Save():
            return ("state saved to disk" if event.disk else "state copied") + (
                ", gradients included" * event.gradients
            )
        case ev.Restore():
            return ("state loaded from disk" if event.disk else "state put back") + (
                ", gradients included" * event.gradients
            )
        case ev.Tick():
            return f"{event.scheduler} moves on"
        case ev.Fault():
            return "an exception, in the middle of backward" if event.torn else "an exception"
        case ev.Resume():
            return f"{event.loader} told where in its data to go on"
        case ev.Overrun():
            return f"{event.loader} goes on from its beginning all the same"
        case ev.Keep():
            return f"{event.total} grows, and keeps the graphs of {event.steps} steps"
        case ev.Exhaust():
            return f"{event.use}: a one-shot iterator of parameters, already used up"
    return None
