"""A tape read as a statement: windows in order, a lane for each optimizer, findings pinned.

What the watcher did not write down because it only repeated stays a repetition here too, so a day
of training makes a small page. The rules come from the caller: this layer knows none.
"""

from collections import Counter
from collections.abc import Iterable

from gradkeeper.model import Auditor, Entry, Event, Finding, Rule, Site
from gradkeeper.model import events as ev
from gradkeeper.model.account import Account
from gradkeeper.report.statement.contents import Lane, Repeat, Statement
from gradkeeper.report.statement.rank_differences import Parting
from gradkeeper.report.statement.ranks import ByRank, fold
from gradkeeper.report.statement.window_story import OPEN, SKIPPED, SPENT, Shape, Story, line_of

NOBODY = "no optimizer"
AFTERWARDS = (ev.Zero, ev.Tick, ev.Update, ev.Save)
"""What comes after a step, before the next backward, still belongs to its window; so does a clip
that comes too late for it."""

Pins = dict[tuple[str, str, int], int]
"""Rule, file and line of a finding, to its place in the report."""


def read(tape: Iterable[Event], rules: Iterable[Rule], findings: Iterable[Finding]) -> Statement:
    """The statement of a tape; only `findings` are told, whatever else the rules say again."""
    reader = _BooksReader(rules, list(findings))
    for event in tape:
        reader.take(event)
    return reader.finish()


class _BooksReader:
    def __init__(self, rules: Iterable[Rule], findings: list[Finding]) -> None:
        self._auditor = Auditor(rules)
        self._statement = Statement(findings)
        self._pins: Pins = {
            (finding.rule, finding.site.file, finding.site.line): place
            for place, finding in enumerate(findings)
        }
        self._lanes: dict[Lane, int] = {}
        self._passages: ByRank = {}
        self._parting = Parting()
        self._shapes: dict[Shape, int] = {}
        self._now: dict[int, Story] = {}
        """By lane: the window that is being filled, or was just spent."""
        self._ended: dict[int, Story] = {}
        """By lane: the window before that."""
        self._stepped: dict[int | None, list[Story]] = {}
        """By rank: every window that was spent, for repetitions."""
        self._places: dict[int | None, int] = {}
        self._taken: Counter[int] = Counter()
        """By lane."""
        self._last: Story | None = None
        self._sources: dict[int | None, str] = {}
        self._new_epochs: dict[int | None, set[str]] = {}
        self._scaled: dict[tuple[int | None, str], set[str]] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, ev.Measure):
            self._measure(event)
            return
        if isinstance(event, ev.Replicas):
            self._statement.replicas.append(event)
        if isinstance(event, ev.Again):
            self._repeat(event)
        else:
            self._places[event.rank] = self._places.get(event.rank, 0) + 1
            self._follow_data(event)
        entry, found = self._auditor.enter(event)
        told = [self._tell(entry, owner, mine) for owner, mine in self._concerned(entry)]
        stories = [story for story in told if story is not None]
        if isinstance(event, ev.Backward) and event.synced:
            self._parting.exchanged(event, self._places[event.rank], next(iter(stories), None))
        if not isinstance(event, ev.Again):  # the windows that come again bring their pins along
            self._pin(event, found, stories)

    def finish(self) -> Statement:
        # In the order in which they began to wait: a lane that never steps comes last.
        told, lanes = self._statement, list(self._lanes)
        for lane, story in self._now.items():
            if story.ended == OPEN and story.lines:
                rank = next(iter(lanes[lane].ranks), None)
                self._passages.setdefault(rank, []).append(story)
        for story in (*self._ended.values(), *self._now.values()):
            self._settle(story)
        self._parting.pin(self._passages, self._shapes)
        told.lanes, told.shapes = lanes, list(self._shapes)
        fold(told, self._passages)
        return told

    # Whose windows an event belongs to

    def _concerned(self, entry: Entry[Event]) -> list[tuple[str, dict[str, Account]]]:
        """The owners an event concerns, each with those of its accounts that are touched."""
        event = entry.event
        match event:
            case ev.Step() | ev.Unscale() | ev.Tick():
                scaler = getattr(event, "scaler", None)
                if scaler is not None:
                    self._scaled.setdefault((event.rank, scaler), set()).add(event.optimizer)
                return [(event.optimizer, dict(entry.before))]
            case ev.Update():
                owners = self._scaled.get((event.rank, event.scaler), set())
                return [(owner, {}) for owner in sorted(owners)]
            case ev.Exhaust() if self._last is not None:
                return [(list(self._lanes)[self._last.lane].optimizer, {})]
            case ev.Open() | ev.Adopt() | ev.Split() | ev.Forward() | ev.Read() | ev.Close():
                return []
        by_owner: dict[str, dict[str, Account]] = {}
        for name, account in entry.before.items():
            for owner in account.owners or (NOBODY,):
                by_owner.setdefault(owner, {})[name] = account
        return list(by_owner.items())

    def _tell(self, entry: Entry[Event], owner: str, mine: dict[str, Account]) -> Story | None:
        event = entry.event
        line = line_of(entry, owner, mine)
        if line is None:
            return None
        waiting, left = self._balance(owner, mine, event.rank)
        afterwards = isinstance(event, AFTERWARDS) or (isinstance(event, ev.Clip) and not waiting)
        story = self._story(self._lane(owner, event.rank), afterwards=afterwards)
        story.add(line._replace(waiting=waiting, left=left))
        if isinstance(event, ev.Backward):
            story.batches.add(entry.batch)
            story.epoch = story.epoch or self._begins_epoch(event.rank)
        if isinstance(event, ev.Zero) and not left:
            self._closed(story)
        if _spends(event):
            story.ended = SPENT if getattr(event, "taken", True) else SKIPPED
            story.place = self._places[event.rank]
            self._count_step(event, story)
            self._passages.setdefault(event.rank, []).append(story)
            self._stepped.setdefault(event.rank, []).append(story)
        self._last = story
        return story

    def _story(self, lane: int, *, afterwards: bool) -> Story:
        """The window an event belongs to: a new one, if the last was spent."""
        now = self._now.get(lane)
        if now is None or (now.ended != OPEN and not afterwards):
            if lane in self._ended:
                self._settle(self._ended[lane])
            if now is not None:
                self._ended[lane] = now
            now = self._now[lane] = Story(lane)
        return now

    def _closed(self, story: Story) -> None:
        """A zero: what was spent last is gone, and so is what waited."""
        spent = story if story.ended != OPEN else self._ended.get(story.lane, story)
        spent.closed = True
        if story.ended == OPEN:
            story.batches.clear()

    def _settle(self, story: Story) -> None:
        story.settle(self._shapes.setdefault(story.told(), len(self._shapes)))

    def _balance(self, owner: str, mine: dict[str, Account], rank: int | None) -> tuple[int, bool]:
        """What waits in all accounts of an owner now, and whether spent gradients lie there."""
        ledger = self._auditor.ledger(rank)
        known = ledger.optimizers.get(owner)
        names = known.accounts if known is not None else tuple(mine)
        accounts = [ledger.accounts[name] for name in names if name in ledger.accounts]
        waiting = {number for account in accounts for number in account.fresh}
        return len(waiting), any(account.lots for account in accounts)

    def _lane(self, optimizer: str, rank: int | None) -> int:
        lane = Lane(optimizer, () if rank is None else (rank,))
        return self._lanes.setdefault(lane, len(self._lanes))

    # Data, measurements, repetitions, findings

    def _measure(self, event: ev.Measure) -> None:
        lane = self._lane(event.optimizer, event.rank)
        self._statement.measures.setdefault(lane, []).append(event)

    def _count_step(self, event: Event, story: Story) -> None:
        """Counts a step that was taken; if it says what it spent, that is a measurement."""
        if story.ended != SPENT:
            return
        self._taken[story.lane] += 1
        optimizer = list(self._lanes)[story.lane].optimizer
        self._parting.stepped(event.rank, optimizer, self._taken[story.lane], story)
        match event:
            case ev.Step(loss=None, norm=None):
                return
            case ev.Step(optimizer=owner, loss=loss, norm=norm):
                measure = ev.Measure(
                    site=event.site,
                    rank=event.rank,
                    optimizer=owner,
                    step=self._taken[story.lane],
                    loss=loss,
                    unclipped=norm,
                )
                self._measure(measure)

    def _follow_data(self, event: Event) -> None:
        match event:
            case ev.EpochBegin():
                self._new_epochs.setdefault(event.rank, set()).add(event.source)
            case ev.Batch():
                self._sources[event.rank] = event.source
            case ev.Backward():
                self._statement.backwards += 1

    def _begins_epoch(self, rank: int | None) -> bool:
        """A loader that is read for validation begins no epoch of training."""
        begun, source = self._new_epochs.get(rank, set()), self._sources.get(rank, "")
        if source not in begun:
            return False
        begun.discard(source)
        return True

    def _repeat(self, event: ev.Again) -> None:
        self._statement.backwards += event.times * len(event.lines)
        since = self._places.get(event.rank, 0) - event.length
        self._parting.repeated(event, since)
        stepped = self._stepped.get(event.rank, [])
        round_ = [story for story in stepped[-event.length :] if story.place > since]
        if not round_:
            return
        for story in round_:
            self._taken[story.lane] += event.times * (story.ended == SPENT)
        # Told before the last round, not after it: that one may still lack what closes it, which
        # comes with the next events. The round before is whole, and all rounds were alike.
        before = stepped[-2 * len(round_) : -len(round_)]
        alike = [story.lane for story in before] == [story.lane for story in round_]
        passages = self._passages[event.rank]
        last = next(n for n in range(len(passages) - 1, -1, -1) if passages[n] is round_[0])
        passages.insert(last, Repeat(before if alike else round_, event.times))

    def _pin(self, event: Event, found: list[Finding], told: list[Story]) -> None:
        for finding in found:
            place = self._pins.get((finding.rule, finding.site.file, finding.site.line))
            if place is None:
                continue
            if isinstance(event, ev.Digest) and event.exchange is not None:
                self._parting.told(event, place)
                continue
            if isinstance(event, ev.Replicas):
                self._parting.differ(event, place)
                continue
            for story in _at(told, finding.site) or self._latest(finding.site):
                story.pins.add(place)

    def _latest(self, site: Site) -> list[Story]:
        """The window that a finding without one belongs to: the last with its line, or the last."""
        open_ = [*self._ended.values(), *self._now.values()]
        there = [story for story in open_ if any(line.site == site for line in story.lines)]
        return there[-1:] or ([self._last] if self._last else [])


def _at(stories: list[Story], site: Site) -> list[Story]:
    return [story for story in stories if story.lines and story.lines[-1].site == site] or stories[
        :1
    ]


def _spends(event: Event) -> bool:
    return isinstance(event, ev.Step) or (isinstance(event, ev.Move) and event.gradient)
