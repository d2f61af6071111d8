"""Where the user's code is: the line that runs, whether a loop went round on the way to it, and the
steps and backwards it runs inside of."""

import inspect
import sys
from types import FrameType
from typing import NamedTuple

import torch

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.source_line import Sites
from gradkeeper.watcher.event_log import EventKey, EventLog
from gradkeeper.watcher.loaders import LoaderEpochs
from gradkeeper.watcher.loops import UNTOLD, CodePlace, Rounds

OPTIMIZERS = inspect.getfile(torch.optim.Optimizer)


class Arrival(NamedTuple):
    """How the user's line was reached, where that took no look at the loops around it."""

    site: Site
    place: CodePlace
    token: object
    before: CodePlace | None
    """The place in the same frame that came before; None where a loader tells the rounds."""


class Underway:
    """The calls that have begun and not ended."""

    def __init__(self) -> None:
        self.running: list[str] = []
        """Optimizers whose step is under way, outermost first."""
        self.scaling: str | None = None
        """The scaler through which the running step was called."""
        self.depth = 0
        """Backwards, one inside the other."""

    @property
    def within(self) -> str | None:
        """The optimizer whose step, or closure, all this happens in."""
        return self.running[0] if self.running else None

    def forget_raised(self, *, begun: int = 0) -> None:
        """A step that raised has told us of its beginning only: what runs is on the stack.

        `begun`: one of those there has not been told yet.
        """
        if self.running:
            del self.running[_steps_on_stack() - begun :]


class Arrivals:
    """What every event begins with."""

    def __init__(self, sites: Sites, log: EventLog) -> None:
        self.sites = sites
        self.rounds = Rounds(sites)
        self.loaders = LoaderEpochs(self._fed, self._shuffled)
        self.underway = Underway()
        self._log = log
        self._pattern: list[EventKey] = log.pattern
        self.last: Site | None = None
        self.way: Arrival | None = None
        """How the last event was reached, where the fast path may know it again."""

    def arrive(self, *, step: bool = False) -> Site:
        """The user's line; a loop's round is posted first if one has passed."""
        frame, site = self.sites.arrived()
        if frame is None:
            return site
        self.last = site
        if step and (self.loaders.held or self.loaders.ended_unread):
            self.loaders.release()
        self.underway.forget_raised()
        self.way = None
        if self.underway.running:
            return site
        place = (id(frame), frame.f_code, frame.f_lasti)
        if self.loaders.begun and self.loaders.live:
            self.way = Arrival(site, place, None, None)
            self.rounds.fed_at = place
            return site
        if self.underway.scaling is not None:
            # One call, which has told of itself: no loop goes round between a scaler and its step.
            self.way = Arrival(site, place, frame.f_trace, place)
            return site
        known, passed = UNTOLD
        if self._log.steady:
            before = self.rounds.places[-1] if self.rounds.places else None
            if self._log.pattern is not self._pattern:
                self._pattern = self._log.pattern
                self.rounds.forget_moments()
            known, passed = self.rounds.quick(frame, self._log.place)
            if known:
                self.way = Arrival(site, place, frame.f_trace, before)
        if not known:
            moment = self._log.place if self._log.steady else None
            passed = self.rounds.next(step=step, moment=moment)
        if passed is not None:
            for source in passed.ended:
                self._log.enter((ev.EpochEnd, site, source))
            if passed.new_epoch:
                self._log.enter((ev.EpochBegin, site, passed.source))
            self._log.enter((ev.Batch, site, passed.source))
        return site

    def another_batch(self, site: Site) -> None:
        """An inner loop's round has brought one."""
        self._log.enter((ev.Batch, site, self.rounds.source))

    def fetched(self, frame: FrameType, site: Site) -> None:
        """A loader handed out one more batch, at this line."""
        self.way = Arrival(site, (id(frame), frame.f_code, frame.f_lasti), None, None)

    def _fed(self, kind: str, site: Site, source: str) -> None:
        kinds = {"batch": ev.Batch, "begin": ev.EpochBegin, "end": ev.EpochEnd}
        if kind == "use":
            self._log.enter((ev.Batch, site, source, False))
        else:
            self._log.enter((kinds[kind], site, source))

    def _shuffled(self, source: str, site: Site, seed: int) -> None:
        self._log.enter((ev.Shuffle, site, source, f"the sampler of {source}", seed))


def _steps_on_stack() -> int:
    count = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "wrapper" and code.co_filename == OPTIMIZERS:
            count += 1
        frame = frame.f_back
    return count
