"""One thread's watcher: turns what torch does into events, in the order of the books.

The taps call it; it holds no rule and patches nothing. Before each event it notices what was done
by hand since the last one (manual_changes.py), and whether a loop went round.
"""

import inspect
import os
import sys
import threading
from types import FrameType
from typing import Any

import torch

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.watcher import loss_graph as losses
from gradkeeper.watcher.backwards import Backwards
from gradkeeper.watcher.effects import Unchanged
from gradkeeper.watcher.fast_path import Arrival, FastPath
from gradkeeper.watcher.gradient_sync import GradientSync
from gradkeeper.watcher.gradients import Cohort, Cohorts
from gradkeeper.watcher.loops import UNTOLD, LoaderEpochs, Rounds
from gradkeeper.watcher.manual_changes import ManualChanges
from gradkeeper.watcher.measures import Measures
from gradkeeper.watcher.names import ModuleMap, Names
from gradkeeper.watcher.optimizers import Optimizers
from gradkeeper.watcher.pattern import EventLog
from gradkeeper.watcher.saved_state import SavedState
from gradkeeper.watcher.sites import Sites
from gradkeeper.watcher.steps import Steps
from gradkeeper.watcher.thread_ownership import ThreadOwnership
from gradkeeper.watcher.zeros import Zeros

MOST_NORMS = 8
OPTIMIZERS = inspect.getfile(torch.optim.Optimizer)
OURS_AND_TORCHS = tuple(
    os.path.dirname(path) + os.sep for path in (os.path.dirname(__file__), torch.__file__)
)
"""The engine reads loaders too, one micro-batch at a time: it is no prefetcher."""


class Recorder:
    def __init__(
        self,
        log: EventLog,
        sites: Sites,
        claims: ThreadOwnership,
        only: tuple[torch.optim.Optimizer, ...] = (),
        *,
        norms: bool = False,
    ) -> None:
        self.thread = threading.current_thread()
        self._threads = claims
        self.log = log
        self.sites = sites
        self.names = Names(sites)
        self.modules = ModuleMap()
        self.cohorts = Cohorts(Names(sites), self.modules.path)
        self.rounds = Rounds(sites)
        self.loaders = LoaderEpochs(self._fed)
        self.optimizers = Optimizers(self, only)
        self.backwards = Backwards(self)
        self.manual = ManualChanges(self)
        self.steps = Steps(self)
        self.zeros = Zeros(self)
        self.saved_state = SavedState(self)
        self.sync = GradientSync()
        self.measures = Measures(self.modules.path, log.aside) if norms else None
        self.last: Site | None = None
        self.arrival: Arrival | None = None
        """How the last event was reached, where the routine may know it again."""
        self.fast_path = FastPath(self)

    def claim(self, parameters: list[torch.Tensor]) -> None:
        """Before these are looked at for the first time."""
        if not self._threads.claim(parameters, self):
            self.mute()

    def mute(self) -> None:
        """Another thread trains the same parameters: nothing is looked at or told any more."""
        self.log.muted = True
        for cohort in self.cohorts.everyone():
            cohort.let_go()

    # What every event begins with

    def arrive(self, *, step: bool = False) -> Site:
        """The user's line; a loop's round is posted first if one has passed."""
        frame, site = self.sites.arrived()
        if frame is None:
            return site
        self.last = site
        self.steps.forget_raised()
        self.arrival = None
        if self.steps.running:
            return site
        place = (id(frame), frame.f_code, frame.f_lasti)
        if self.loaders.begun and self.loaders.live:
            self.arrival = Arrival(site, place, None, None)
            return site
        known, passed = UNTOLD
        if self.log.steady:
            before = self.rounds.places[-1] if self.rounds.places else None
            known, passed = self.rounds.quick(frame)
            if known:
                self.arrival = Arrival(site, place, frame.f_trace, before)
        if not known:
            passed = self.rounds.next(step=step)
        if passed is not None:
            if passed.new_epoch:
                self.post(ev.EpochBegin, site, passed.source)
            self.log.enter((ev.Batch, site, passed.source))
        return site

    def post(self, *key: Any) -> None:
        self.log.enter(key)

    def split(self, cohort: Cohort, part: list[Any], site: Site) -> Cohort:
        """Parts some members from a cohort, in the books too; returns their new cohort."""
        if len(part) == len(cohort.marks):
            return cohort
        taken, rest = self.cohorts.split(cohort, part)
        self.log.flush()
        self.post(ev.Split, site, cohort.name, (taken.name, rest.name))
        self.describe(taken, site)
        self.describe(rest, site)
        self.optimizers.renamed(cohort.name, (taken.name, rest.name))
        return taken

    def describe(self, cohort: Cohort, site: Site) -> None:
        parameters = tuple(self.cohorts.parameters(cohort))
        self.post(ev.Open, site, cohort.name, parameters, len(cohort.marks), cohort.trainable)

    def _fed(self, kind: str, site: Site, source: str) -> None:
        kinds = {"batch": ev.Batch, "begin": ev.EpochBegin, "end": ev.EpochEnd}
        self.post(kinds[kind], site, source)

    # Clipping and scaling

    def clip(self, parameters: list[torch.Tensor], bound: float | None, norm: object) -> None:
        site = self.arrive()
        touched = self.cohorts.covered(parameters) or list(self.cohorts.touched(parameters))
        names = tuple([cohort.name for cohort in touched])
        if names:
            self.post(ev.Clip, site, names, bound, False)
        for cohort in touched:
            cohort.note(closely=not self.log.steady)
            if cohort.fresh and isinstance(norm, torch.Tensor):
                cohort.norms[MOST_NORMS - 1 :] = [norm.detach()]

    def noted(self, optimizer: torch.optim.Optimizer) -> None:
        """Its gradients were changed by something that is part of a larger event."""
        name = self.optimizers.name_of(optimizer)
        for cohort in self.optimizers.cohorts(name) if name else ():
            cohort.note(closely=not self.log.steady)

    def exhausted(self, use: str) -> None:
        self.post(ev.Exhaust, self.arrive(), use)

    def scaled(self, output: torch.Tensor, scaler: object) -> None:
        name = self.optimizers.scaler_name(scaler, self.sites.here())
        node: Any = output.grad_fn
        if node is not None:
            node.metadata[losses.SCALED_BY] = name
        if self.measures is not None:
            self.measures.scaled(output, scaler)
        self.post(ev.Scale, self.arrive(), name)

    def unscaled(self, optimizer: torch.optim.Optimizer, scaler: object) -> None:
        name = self.optimizers.adopt(optimizer)
        if name is None:
            return
        site = self.arrive()
        self.post(ev.Unscale, site, self.optimizers.scaler_name(scaler, site), name)
        for cohort in self.optimizers.cohorts(name):
            cohort.note(closely=not self.log.steady)

    def updated(self, scaler: object) -> None:
        site = self.arrive()
        self.post(ev.Update, site, self.optimizers.scaler_name(scaler, site))

    # Loaders, schedulers, faults, ranks, the end

    def fetched(self, iterator: Any, number: int | None) -> None:
        """A loader handed out a batch, or (None) has none left."""
        if number is not None and self.loaders.latest() is iterator:
            if self.fast_path.again(None, iterator) is not None:
                return
        frame, site = self.sites.arrived()
        source = self.optimizers.loader_name(iterator, site)
        if number is None:
            self.loaders.exhausted(source, site)
            return
        start, again = self.fast_path.start(), self.loaders.latest() is iterator
        ahead = self._fetched_ahead()
        self.loaders.fetched(source, iterator, site, ahead=ahead)
        if again and not ahead and frame is not None:
            place = (id(frame), frame.f_code, frame.f_lasti)
            self.arrival = Arrival(site, place, None, None)
            self.fast_path.learn(start, None, Unchanged(()), subject=iterator)

    def _fetched_ahead(self) -> bool:
        """The fetch comes from a framework, which may hold the batch back."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(OURS_AND_TORCHS):
            frame = frame.f_back
        return frame is not None and not self.sites.is_user(frame.f_code)

    def synced(self, cohorts: list[Cohort]) -> bool | None:
        return self.sync.synced(cohorts) if self.sync.several else None

    def ticked(self, scheduler: object, optimizer: torch.optim.Optimizer, *, metric: bool) -> None:
        owner = self.optimizers.adopt(optimizer)
        if owner is not None:
            site = self.arrive()
            name = self.optimizers.scheduler_name(scheduler, site)
            self.post(ev.Tick, site, name, owner, metric)

    def fault(self, *, torn: bool) -> None:
        site = self.sites.here()
        waiting = tuple(one.name for one in self.cohorts if one.fresh)
        if waiting:
            self.post(ev.Fault, site, waiting, torn)

    def close(self) -> None:
        site = self.last or self.sites.here()
        self.log.flush()
        self.optimizers.bury(site)
        if self.thread is threading.current_thread() or not self.thread.is_alive():
            self.manual.notice(self.cohorts.everyone(), site)
        self.post(ev.Close, site)
        self.log.tally.close()

    # DistributedDataParallel

    def ddp_begins(self, wrapper: Any) -> list[Cohort]:
        """Its forward runs; returns what it may put into buckets, where that is not settled yet."""
        if not self.sync.forward(wrapper):
            return []
        inside = list(self.cohorts.touched(wrapper.module.parameters()))
        self.manual.notice(inside, self.sites.here())
        return inside

    def ddp_ends(self, inside: list[Cohort]) -> None:
        for cohort in inside:
            cohort.note(closely=True)
