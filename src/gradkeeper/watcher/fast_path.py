"""The fast path of a steady loop: what comes next is known, so a look at each account is enough.

For each place of the log's pattern it remembers the line that came there, what had to hold, and
what the call did (effects.py). Where all is as remembered, it does that again; where anything is
not, it has changed nothing, and the long way is taken.
"""

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

from gradkeeper.model import Site
from gradkeeper.watcher.accounts import Accounts
from gradkeeper.watcher.arrivals import Arrivals
from gradkeeper.watcher.effects import CreditedAgain, Effect, Expected
from gradkeeper.watcher.gradient_sync import GradientSync
from gradkeeper.watcher.gradients import Cohort
from gradkeeper.watcher.loops import CodePlace, FrameToken

ABOVE_TAP = 3
"""So many calls above `again` is what called the tap, or nearer: no frame of the user's lies
below. A frame that is not asked for is not made, which counts here."""

NOWHERE = object()
"""Lies on no frame."""


class Moment(NamedTuple):
    """What happened at one place of the pattern."""

    what: object
    """What else must be equal: it makes a part of the event."""
    subject: Callable[[], object] | None
    """The optimizer or the loader's iterator, where it is one's call."""
    site: Site
    place: CodePlace
    offset: int
    """In the code of `place`."""
    token: object
    before: CodePlace | None
    """As of the `Arrival`."""
    left: object
    """The token, where it is one that was left on the frame: then it lies on no other."""
    version: int
    """Of the cohorts: as long as it is the same, none came, went or split."""
    holds: Callable[[], bool]
    effects: tuple[Callable[[], None], ...]
    """Their `apply`, bound once: time counts here."""
    later: tuple[Callable[[], None], ...]
    """Those of the call's end."""
    after: int
    wraps: int
    """The place that follows, and how often the pattern's end was passed on the way."""


class BackwardEnding(NamedTuple):
    """How a backward ended at one place of the pattern."""

    site: Site
    version: int
    apply: Callable[[], bool]
    after: int
    wraps: int


Start = tuple[int, int]


class FastPath:
    def __init__(
        self,
        arrivals: Arrivals,
        accounts: Accounts,
        sync: GradientSync,
        reads: dict[Cohort, Site],
        *,
        measuring: bool,
    ) -> None:
        """`reads`: of gradients, and not told yet. While `measuring`, nothing is only done again:
        each backward and step is read."""
        self._arrivals = arrivals
        self._sync = sync
        self._reads = reads
        self._measuring = measuring
        # Each asked for at each tap; they stay the same for good.
        self._log, self._cohorts = accounts.log, accounts.cohorts
        self._loaders, self._rounds = arrivals.loaders, arrivals.rounds
        self._running = arrivals.underway.running
        self._users = arrivals.sites.known
        self._pattern: object = None
        """The log's, of which all below is known."""
        self._moments: dict[int, Moment] = {}
        self._endings: dict[int, BackwardEnding] = {}
        """Of backwards: they may come at the same place as their beginnings."""

    # Remembering

    def start(self) -> Start | None:
        """Where the log is, for `learn`; None where there is nothing to learn."""
        if self._measuring:
            return None
        log = self._log
        return (log.place, log.times) if log.steady else None

    def learn(
        self,
        start: Start | None,
        what: object,
        expected: Expected,
        effects: tuple[Effect, ...] = (),
        *,
        subject: object = None,
        later: tuple[Effect, ...] = (),
    ) -> None:
        """The long way was taken from `start`, and the pattern held."""
        log, way = self._log, self._arrivals.way
        if start is None or way is None or not log.steady:
            return
        self._begin()
        self._moments[start[0]] = Moment(
            what,
            None if subject is None else weakref.ref(subject),
            way.site,
            way.place,
            way.place[2],
            way.token,
            way.before,
            way.token if isinstance(way.token, FrameToken) else NOWHERE,
            self._cohorts.version,
            expected.holds,
            tuple(effect.apply for effect in effects),
            tuple(effect.apply for effect in later),
            log.place,
            log.times - start[1],
        )

    def learn_ending(self, start: Start | None, site: Site, credited: CreditedAgain) -> None:
        """The same, of a backward's end."""
        log = self._log
        if start is None or not log.steady or self._running or self._sync.several:
            return
        self._begin()
        self._endings[start[0]] = BackwardEnding(
            site, self._cohorts.version, credited.apply, log.place, log.times - start[1]
        )

    def _begin(self) -> None:
        """Forgets what was known of another pattern."""
        if self._pattern is not self._log.pattern:
            self._pattern = self._log.pattern
            self._moments.clear()
            self._endings.clear()

    # Going on as expected

    def again(
        self, what: object, subject: object = None, *, above: int = ABOVE_TAP
    ) -> Moment | None:
        """Goes on in the pattern and does what was done at this place before, if all is as it was
        then; None, and nothing is done, if not. `above`: no frame of the user's lies nearer."""
        log = self._log
        if log.pattern is not self._pattern or self._running or self._reads:
            return None
        moment = self._moments.get(log.place)
        if moment is None:
            return None
        # In one go: each by its name costs as much as all of them together.
        (expected, whose, _, place, offset, token, before, left, version, holds, effects, _, after,
         wraps) = moment  # fmt: skip
        if (None if whose is None else whose()) is not subject:
            return None
        if expected is not what and expected != what:
            return None
        if version != self._cohorts.version:
            return None
        # The user's line is the one that is expected.
        frame: FrameType | None = sys._getframe(above)
        if frame is None or frame.f_trace is not left:
            while frame is not None and frame.f_code is not place[1]:
                if self._users.get(frame.f_code.co_filename, True):
                    return None
                frame = frame.f_back
            if frame is None:
                return None
            if before is not None and (id(frame) != place[0] or frame.f_trace is not token):
                return None
        if frame.f_lasti != offset:
            return None
        # The round is told as it was then: by a loader, or by the line before.
        loaders, places = self._loaders, self._rounds.places
        if before is None:
            if loaders.held or loaders.latest() is None:
                return None
        elif places[-1] != before or (loaders.begun and (loaders.held or loaders.live)):
            return None
        if not holds():
            return None
        log.place = after
        if wraps:
            log.times += wraps
        if before is not None:
            places[-1] = place
            if self._rounds.nested:
                self._rounds.went_on(frame, before[2])
        for apply in effects:
            apply()
        return moment

    def ends_again(self, site: Site) -> bool:
        """The same for the end of a backward that began as expected."""
        log = self._log
        if log.pattern is not self._pattern or self._running or self._sync.several:
            return False
        ending = self._endings.get(log.place)
        if ending is None:
            return False
        where, version, apply, after, wraps = ending
        if where is not site or version != self._cohorts.version or not apply():
            return False
        log.place = after
        if wraps:
            log.times += wraps
        return True

    def is_over(self, moment: Moment, subject: object) -> bool:
        """Ends a call that began as expected, if nothing else happened in it."""
        _, whose, _, _, _, _, _, _, version, _, _, later, _, _ = moment
        if self._log.pattern is not self._pattern or version != self._cohorts.version:
            return False
        if whose is None or whose() is not subject:
            return False
        for apply in later:
            apply()
        return True
