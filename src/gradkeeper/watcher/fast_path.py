"""The fast path of a steady loop: what comes next is known, so a look at each account is enough.

For each place of the log's pattern it remembers the line that came there, what had to hold, and
what the call did (effects.py). Where all is as remembered, it does that again; where anything is
not, it has changed nothing, and the long way is taken.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from sys import _getframe
from types import FrameType

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


@dataclass(slots=True)
class Moment:
    """What happened at one place of the pattern."""

    what: object
    """What else must be equal: it makes a part of the event."""
    subject: Callable[[], object] | None
    """The optimizer or the loader's iterator, where it is one's call."""
    name: str
    """What the books call it."""
    place: CodePlace
    offset: int
    """In the code of `place`."""
    token: object
    left: object
    """The token, where it is one that was left on the frame: then it lies on no other."""
    before: CodePlace | None
    """As of the `Arrival`."""
    alone: bool
    """It alone tells the round: no loader was ever used, and no counters are to be read."""
    holds: Callable[[], bool] | None
    """None where nothing has to."""
    apply: Callable[[], None] | None
    """Does what the call did."""
    after: int
    wraps: int
    """The place that follows, and how often the pattern's end was passed on the way."""
    site: Site
    later: Callable[[], None] | None
    """Does what the call's end did."""


@dataclass(slots=True)
class BackwardEnding:
    """How a backward ended at one place of the pattern."""

    site: Site
    apply: Callable[[], bool]
    """Does nothing, and is False, where it did not end so."""
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
        self._log = accounts.log
        self._loaders, self._rounds = arrivals.loaders, arrivals.rounds
        self._running = arrivals.underway.running
        self._users = arrivals.sites.known
        self._places: dict[CodePlace, CodePlace] = {}
        """One for all that are equal: to compare them takes a while."""
        self._moments: dict[int, Moment] = {}
        """By their places in the pattern that is known."""
        self._endings: dict[int, BackwardEnding] = {}
        """Of backwards: they may come at the same place as their beginnings."""
        accounts.log.broken.append(self._forget)
        accounts.cohorts.changed.append(self._forget)
        arrivals.rounds.changed.append(self._forget)

    def _forget(self) -> None:
        """The pattern is over (as when the first loader is used), a cohort came, went or split, or
        counters are to be read from now on."""
        self._places.clear()
        self._moments.clear()
        self._endings.clear()

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
        expected: Expected | None = None,
        effect: Effect | None = None,
        *,
        subject: object = None,
        name: str = "",
        later: Effect | None = None,
    ) -> None:
        """The long way was taken from `start`, and the pattern held."""
        log, way = self._log, self._arrivals.way
        if start is None or way is None or not log.steady:
            return
        place, before = self._places.setdefault(way.place, way.place), way.before
        if before is not None:
            before = self._places.setdefault(before, before)
        self._moments[start[0]] = Moment(
            what,
            None if subject is None else weakref.ref(subject),
            name,
            place,
            place[2],
            way.token,
            way.token if isinstance(way.token, FrameToken) else NOWHERE,
            before,
            before is not None and not self._loaders.begun and not self._rounds.nested,
            None if expected is None else expected.holds,
            None if effect is None else effect.apply,
            log.place,
            log.times - start[1],
            way.site,
            None if later is None else later.apply,
        )

    def learn_ending(self, start: Start | None, site: Site, credited: CreditedAgain) -> None:
        """The same, of a backward's end."""
        log = self._log
        if start is None or not log.steady or self._running or self._sync.several:
            return
        self._endings[start[0]] = BackwardEnding(
            site, credited.apply, log.place, log.times - start[1]
        )

    # Going on as expected

    def again(self, what: object, subject: object, above: int) -> Moment | None:
        """Goes on in the pattern and does what was done at this place before, if all is as it was
        then; None, and nothing is done, if not. `above`: no frame of the user's lies nearer."""
        log = self._log
        if self._running or self._reads:
            return None
        moment = self._moments.get(log.place)
        if moment is None:
            return None
        # What a slot holds is taken out first: to call it where it lies is slower (Python 3.11).
        whose, expected = moment.subject, moment.what
        if whose is not None and whose() is not subject:
            return None
        if expected is not what and expected != what:
            return None
        # The user's line is the one that is expected.
        try:
            frame = _getframe(above)
        except ValueError:  # a script's own line calls the tap, nearer than most do
            return None
        if frame.f_trace is not moment.left:
            found = self._users_frame(frame, moment)
            if found is None:
                return None
            frame = found
        if frame.f_lasti != moment.offset:
            return None
        # The round is told as it was then: by the line before, or by a loader.
        places = self._rounds.places
        if moment.alone:
            if places[-1] is not moment.before and places[-1] != moment.before:
                return None
        elif not self._is_round_of(moment):
            return None
        holds, apply = moment.holds, moment.apply
        if holds is not None and not holds():
            return None
        log.place = moment.after
        if moment.wraps:
            log.times += moment.wraps
        if moment.alone:
            places[-1] = moment.place
        else:
            self._went_on(moment, frame)
        if apply is not None:
            apply()
        return moment

    def _is_round_of(self, moment: Moment) -> bool:
        loaders, before = self._loaders, moment.before
        if before is None:
            return not loaders.held and loaders.latest() is not None
        if loaders.begun and (loaders.held or loaders.live):
            return False
        return self._rounds.places[-1] == before

    def _went_on(self, moment: Moment, frame: FrameType) -> None:
        rounds, before = self._rounds, moment.before
        if before is None:
            return
        rounds.places[-1] = moment.place
        if rounds.nested:
            rounds.went_on(frame, before[2])

    def _users_frame(self, nearest: FrameType, moment: Moment) -> FrameType | None:
        """The user's nearest frame, from this one on, if it is the one that is expected."""
        frame: FrameType | None = nearest
        place = moment.place
        while frame is not None and frame.f_code is not place[1]:
            if self._users.get(frame.f_code.co_filename, True):
                return None
            frame = frame.f_back
        if frame is None or moment.before is None:
            return frame
        return frame if id(frame) == place[0] and frame.f_trace is moment.token else None

    def ends_again(self, site: Site) -> bool:
        """The same for the end of a backward that began as expected."""
        log = self._log
        ending = self._endings.get(log.place)
        if ending is None or ending.site is not site or self._running or self._sync.several:
            return False
        apply = ending.apply
        if not apply():
            return False
        log.place = ending.after
        if ending.wraps:
            log.times += ending.wraps
        return True
