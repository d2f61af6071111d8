"""The routine of a steady loop: what comes next is known, so a look at each account is enough.

For each place of the journal's pattern it remembers the line that came there, and which accounts
it touched. Where all is as remembered, it does to the accounts what the keeper would do, and tells
the keeper so; where anything is not, it has changed nothing, and the keeper takes the long way.
"""

import sys
import weakref
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from gradkeeper.model import Site
from gradkeeper.watcher.cohorts import Cohort
from gradkeeper.watcher.loss import LossFacts
from gradkeeper.watcher.marks import norms_are_finite
from gradkeeper.watcher.owners import signature_of
from gradkeeper.watcher.rounds import Place

if TYPE_CHECKING:
    from gradkeeper.watcher.keeper import Keeper

TAP = 3
"""So many calls above `_is_there` is the tap, or nearer: no frame of the user's lies below."""


class Arrival(NamedTuple):
    """How the user's line was reached, where that took no look at the loops around it."""

    site: Site
    place: Place
    token: object
    before: Place | None
    """The place in the same frame that came before; None where a loader tells the rounds."""


class Moment(NamedTuple):
    """What happened at one place of the pattern."""

    what: object
    """What else must be equal: it makes a part of the event."""
    subject: weakref.ref[Any] | None
    """The optimizer, where it is one's call."""
    arrival: Arrival
    version: int
    """Of the cohorts: as long as it is the same, none came, went or split."""
    mine: list[Cohort]
    after: int
    wraps: int
    """The place that follows, and how often the pattern's end was passed on the way."""


class Credit(NamedTuple):
    """How a backward ended at one place of the pattern."""

    site: Site
    version: int
    each: list[tuple[Cohort, bool]]
    """All cohorts, and whether it credits them."""
    after: int
    wraps: int


Start = tuple[int, int]


class Routine:
    def __init__(self, keeper: "Keeper") -> None:
        self._keeper = keeper
        self._pattern: object = None
        """The journal's, of which all below is known."""
        self._moments: dict[int, Moment] = {}
        self._credits: dict[int, Credit] = {}
        """Of backwards' ends: they may come at the same place as their beginnings."""
        self._stepping: Moment | None = None

    # Remembering

    def start(self) -> Start | None:
        """Where the journal is, for `learn`; None where there is nothing to learn.

        Measuring is no routine: each backward and step is read.
        """
        if self._keeper.measures is not None:
            return None
        journal = self._keeper.journal
        return (journal.place, journal.times) if journal.steady else None

    def learn(
        self,
        start: Start | None,
        what: object,
        mine: list[Cohort],
        subject: object = None,
    ) -> None:
        """The keeper has taken the long way from `start`, and the pattern held."""
        journal, arrival = self._keeper.journal, self._keeper.arrival
        if start is None or arrival is None or not journal.steady:
            return
        self._begin()
        self._moments[start[0]] = Moment(
            what,
            None if subject is None else weakref.ref(subject),
            arrival,
            self._keeper.cohorts.version,
            mine,
            journal.place,
            journal.times - start[1],
        )

    def learn_credit(self, start: Start | None, site: Site, credited: list[Cohort]) -> None:
        keeper = self._keeper
        journal = keeper.journal
        if start is None or not journal.steady or keeper.running or keeper.ranks.several:
            return
        self._begin()
        each = [(cohort, cohort in credited) for cohort in keeper.cohorts.everyone()]
        wraps = journal.times - start[1]
        self._credits[start[0]] = Credit(site, keeper.cohorts.version, each, journal.place, wraps)

    def _begin(self) -> None:
        """Forgets what was known of another pattern."""
        if self._pattern is not self._keeper.journal.pattern:
            self._pattern = self._keeper.journal.pattern
            self._moments.clear()
            self._credits.clear()

    # Going on as expected

    def _take(self, what: object, subject: object = None) -> Moment | None:
        """Goes on in the pattern, if all is as it was when this place was reached before."""
        keeper = self._keeper
        journal = keeper.journal
        if journal.pattern is not self._pattern:
            return None
        moment = self._moments.get(journal.place)
        if moment is None or moment.what != what or moment.version != keeper.cohorts.version:
            return None
        if moment.subject is not None and moment.subject() is not subject:
            return None
        if keeper.running or keeper.hands.waiting or not self._is_there(moment.arrival):
            return None
        for cohort in moment.mine:
            if cohort.few is None or cohort.memory is not None or cohort.zeroed_unseen:
                return None
            if cohort.norms and not norms_are_finite(cohort.norms):
                return None
            for mark in cohort.few:
                if not mark.is_as_seen(cohort.fresh > 0):
                    return None
        journal.place = moment.after
        journal.times += moment.wraps
        keeper.last = moment.arrival.site
        if moment.arrival.before is not None:
            keeper.rounds.places[-1] = moment.arrival.place
        return moment

    def _is_there(self, arrival: Arrival) -> bool:
        """The user's line is the one that is expected, and so is the line before it."""
        keeper = self._keeper
        address, code, offset = arrival.place
        known = keeper.sites.known
        frame: FrameType | None = sys._getframe(TAP)
        while frame is not None and frame.f_code is not code:
            if known.get(frame.f_code.co_filename, True):
                return False
            frame = frame.f_back
        if frame is None or frame.f_lasti != offset:
            return False
        if keeper.feed.begun and keeper.feed.live:
            return arrival.before is None
        if id(frame) != address or frame.f_trace is not arrival.token:
            return False
        return keeper.rounds.places[-1] == arrival.before

    # The calls of nearly every loop

    def zero(self, optimizer: torch.optim.Optimizer) -> bool:
        """Its gradients are about to become None, as expected."""
        moment = self._take(None, optimizer)
        if moment is None:
            return False
        for cohort in moment.mine:
            cohort.clear()
            for mark in cohort.few or ():
                mark.grad = None
        return True

    def backward(self, facts: LossFacts) -> Site | None:
        """Its line, if a backward begins as expected."""
        moment = self._take(facts[:3])
        return None if moment is None else moment.arrival.site

    def credit(self, site: Site) -> bool:
        """A backward that began as expected has ended: it credited what it always does."""
        keeper = self._keeper
        journal = keeper.journal
        if journal.pattern is not self._pattern or keeper.running or keeper.ranks.several:
            return False
        known = self._credits.get(journal.place)
        if known is None or known.site is not site or known.version != keeper.cohorts.version:
            return False
        for cohort, expected in known.each:
            for mark in cohort.few or cohort.marks:
                if mark.is_credited() is not expected:
                    return False
        journal.place = known.after
        journal.times += known.wraps
        for cohort, expected in known.each:
            if expected:
                cohort.fresh += 1
                for mark in cohort.few or cohort.marks:
                    mark.note()
        return True

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        keeper = self._keeper
        name = keeper.owners.name_of(optimizer)
        # A fused optimizer that a scaler calls decides by found_inf itself.
        if name is None or keeper.crediting.depth or "found_inf" in optimizer.__dict__:
            return False
        if keeper.check_finite:
            return False
        moment = self._take((keeper.scaling, signature_of(optimizer)), optimizer)
        if moment is None:
            return False
        keeper.taken = True
        for cohort in moment.mine:
            cohort.spend(name)
        keeper.running.append(name)
        self._stepping = moment
        return True

    def stepped(self, optimizer: torch.optim.Optimizer) -> bool:
        """The step that went as expected is over, and nothing else happened in it."""
        moment, keeper = self._stepping, self._keeper
        self._stepping = None
        if moment is None or moment.subject is None or moment.subject() is not optimizer:
            return False
        if keeper.journal.pattern is not self._pattern or len(keeper.running) != 1:
            return False
        if moment.version != keeper.cohorts.version:
            return False
        keeper.running.clear()
        for cohort in moment.mine:
            cohort.turn()
        return True
