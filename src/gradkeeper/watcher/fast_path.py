"""The routine of a steady loop: what comes next is known, so a look at each account is enough.

For each place of the log's pattern it remembers the line that came there, and which accounts it
touched. Where all is as remembered, it does to the accounts what the recorder would do, and tells
the recorder so; where anything is not, it has changed nothing, and the recorder takes the long way.
"""

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import torch

from gradkeeper.model import Site
from gradkeeper.watcher.gradients import Cohort, norms_are_finite
from gradkeeper.watcher.loops import CodePlace
from gradkeeper.watcher.loss_graph import LossFacts
from gradkeeper.watcher.optimizers import signature_of

if TYPE_CHECKING:
    from gradkeeper.watcher.recorder import Recorder

TAP = 3
"""So many calls above `_is_there` is the tap, or nearer: no frame of the user's lies below."""


class Arrival(NamedTuple):
    """How the user's line was reached, where that took no look at the loops around it."""

    site: Site
    place: CodePlace
    token: object
    before: CodePlace | None
    """The place in the same frame that came before; None where a loader tells the rounds."""


class Moment(NamedTuple):
    """What happened at one place of the pattern."""

    what: object
    """What else must be equal: it makes a part of the event."""
    subject: Callable[[], object]
    """The optimizer or the loader's iterator, where it is one's call."""
    owner: str
    """The name of the optimizer."""
    arrival: Arrival
    version: int
    """Of the cohorts: as long as it is the same, none came, went or split."""
    mine: list[Cohort]
    looked: list[Cohort]
    """Those that may have been changed by hand before, where that matters."""
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


class FastPath:
    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder
        # Each asked for at each tap; they stay the recorder's own for good.
        self._log, self._cohorts = recorder.log, recorder.cohorts
        self._feed, self._rounds = recorder.loaders, recorder.rounds
        self._steps, self._running = recorder.steps, recorder.steps.running
        self._waiting = recorder.manual.waiting
        self._users = recorder.sites.known
        self._pattern: object = None
        """The log's, of which all below is known."""
        self._moments: dict[int, Moment] = {}
        self._credits: dict[int, Credit] = {}
        """Of backwards' ends: they may come at the same place as their beginnings."""
        self._stepping: Moment | None = None

    # Remembering

    def start(self) -> Start | None:
        """Where the log is, for `learn`; None where there is nothing to learn.

        Measuring is no routine: each backward and step is read.
        """
        if self._recorder.measures is not None:
            return None
        log = self._recorder.log
        return (log.place, log.times) if log.steady else None

    def learn(
        self,
        start: Start | None,
        what: object,
        mine: list[Cohort],
        subject: object = None,
        owner: str = "",
        *,
        look: bool = True,
    ) -> None:
        """The recorder has taken the long way from `start`, and the pattern held."""
        log, arrival = self._recorder.log, self._recorder.arrival
        if start is None or arrival is None or not log.steady:
            return
        self._begin()
        self._moments[start[0]] = Moment(
            what,
            _nothing if subject is None else weakref.ref(subject),
            owner,
            arrival,
            self._recorder.cohorts.version,
            mine,
            mine if look else [],
            log.place,
            log.times - start[1],
        )

    def learn_credit(self, start: Start | None, site: Site, credited: list[Cohort]) -> None:
        recorder = self._recorder
        log = recorder.log
        if start is None or not log.steady or self._running or recorder.sync.several:
            return
        if any(cohort.hidden for cohort in credited):
            return  # what is remembered of them at each backward is no routine
        self._begin()
        each = [(cohort, cohort in credited) for cohort in recorder.cohorts.everyone()]
        wraps = log.times - start[1]
        self._credits[start[0]] = Credit(site, recorder.cohorts.version, each, log.place, wraps)

    def _begin(self) -> None:
        """Forgets what was known of another pattern."""
        if self._pattern is not self._recorder.log.pattern:
            self._pattern = self._recorder.log.pattern
            self._moments.clear()
            self._credits.clear()

    # Going on as expected

    def _take(self, what: object, subject: object) -> Moment | None:
        """Goes on in the pattern, if all is as it was when this place was reached before."""
        log = self._log
        if log.pattern is not self._pattern or self._running or self._waiting:
            return None
        moment = self._moments.get(log.place)
        if moment is None or moment.subject() is not subject or moment.what != what:
            return None
        if moment.version != self._cohorts.version or not self._is_there(moment.arrival):
            return None
        for cohort in moment.looked:
            if cohort.few is None or cohort.memory is not None or cohort.unseen:
                return None
            if cohort.norms and not norms_are_finite(cohort.norms):
                return None
            for mark in cohort.few:
                if not mark.is_as_seen(cohort.fresh > 0):
                    return None
        log.place = moment.after
        log.times += moment.wraps
        if moment.arrival.before is not None:
            self._rounds.places[-1] = moment.arrival.place
        return moment

    def _is_there(self, arrival: Arrival) -> bool:
        """The user's line is the one that is expected, and the round is told as it was then: by a
        loader, or by the line before."""
        _, place, token, before = arrival
        address, code, offset = place
        frame: FrameType | None = sys._getframe(TAP)
        while frame is not None and frame.f_code is not code:
            if self._users.get(frame.f_code.co_filename, True):
                return False
            frame = frame.f_back
        if frame is None or frame.f_lasti != offset:
            return False
        if before is None:
            return self._feed.latest() is not None
        if id(frame) != address or frame.f_trace is not token or self._rounds.places[-1] != before:
            return False
        return not (self._feed.begun and self._feed.live)

    # The calls of nearly every loop

    def fetch(self, iterator: object) -> bool:
        """The loader that was read last has handed out one more batch, as expected."""
        return self._feed.latest() is iterator and self._take(None, iterator) is not None

    def zero(self, optimizer: torch.optim.Optimizer) -> bool:
        """Its gradients are about to become None, as expected."""
        moment = self._take(None, optimizer)
        if moment is None:
            return False
        self._recorder.last = moment.arrival.site
        for cohort in moment.mine:
            cohort.clear()
            for mark in cohort.few or cohort.marks:
                mark.grad = None
        return True

    def backward(self, facts: LossFacts) -> Site | None:
        """Its line, if a backward begins as expected."""
        moment = self._take(facts.comparable(), None)
        if moment is None:
            return None
        site = self._recorder.last = moment.arrival.site
        return site

    def credit(self, site: Site) -> bool:
        """A backward that began as expected has ended: it credited what it always does."""
        log = self._log
        if log.pattern is not self._pattern or self._running or self._recorder.sync.several:
            return False
        known = self._credits.get(log.place)
        if known is None or known.site is not site or known.version != self._cohorts.version:
            return False
        for cohort, expected in known.each:
            for mark in cohort.few or cohort.marks:
                if mark.is_credited() is not expected:
                    return False
        log.place = known.after
        log.times += known.wraps
        for cohort, expected in known.each:
            if expected:
                cohort.fresh += 1
                for mark in cohort.few or cohort.marks:
                    mark.note()
        return True

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        recorder = self._recorder
        # A fused optimizer that a scaler calls decides by found_inf itself.
        if (
            self._steps.check_finite
            or recorder.backwards.depth
            or "found_inf" in optimizer.__dict__
        ):
            return False
        moment = self._take((self._steps.scaling, signature_of(optimizer)), optimizer)
        if moment is None:
            return False
        recorder.last = moment.arrival.site
        self._steps.taken = True
        for cohort in moment.mine:
            cohort.spend(moment.owner)
        self._running.append(moment.owner)
        self._stepping = moment
        return True

    def stepped(self, optimizer: torch.optim.Optimizer) -> bool:
        """The step that went as expected is over, and nothing else happened in it."""
        moment, self._stepping = self._stepping, None
        if moment is None or moment.subject() is not optimizer:
            return False
        if self._log.pattern is not self._pattern or len(self._running) != 1:
            return False
        if moment.version != self._cohorts.version:
            return False
        self._running.clear()
        for cohort in moment.mine:
            cohort.turn()
        return True


def _nothing() -> None:
    """In the place of a weak reference, where there is nothing to refer to."""
