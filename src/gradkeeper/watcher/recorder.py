"""One thread's watcher: turns what torch does into events, in the order of the books.

The taps call it; it holds no rule and patches nothing. Before each event it notices what was done
by hand since the last one (manual_changes.py), and whether a loop went round.
"""

import os
import sys
import threading
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any

import torch

from gradkeeper.model import events as ev
from gradkeeper.source_line import Sites
from gradkeeper.torch_private import keep_from_compiler, storage_key
from gradkeeper.watcher import loss_graph as losses
from gradkeeper.watcher.accounts import Accounts, ThreadOwnership
from gradkeeper.watcher.arrivals import Arrivals
from gradkeeper.watcher.backwards import Backwards
from gradkeeper.watcher.event_log import EventLog
from gradkeeper.watcher.fast_path import ABOVE_TAP, FastPath
from gradkeeper.watcher.gradient_sync import GradientSync
from gradkeeper.watcher.gradients import Cohort, grads_of
from gradkeeper.watcher.loaded_tensors import LoadedTensors
from gradkeeper.watcher.loaders import LoaderStates
from gradkeeper.watcher.manual_changes import ManualChanges
from gradkeeper.watcher.measures import Measures
from gradkeeper.watcher.optimizers import Optimizers
from gradkeeper.watcher.replicas import ReplicaHistory
from gradkeeper.watcher.saved_state import SavedState
from gradkeeper.watcher.steps import Steps
from gradkeeper.watcher.zeros import Zeros

MOST_NORMS = 8
OURS_AND_TORCHS = tuple(
    os.path.dirname(path) + os.sep for path in (os.path.dirname(__file__), torch.__file__)
)
"""The engine reads loaders too, one micro-batch at a time: it is no prefetcher."""


class Recorder:
    """Wires the parts of one thread's watcher together, each to those it needs, and tells of what
    concerns no part of its own: clips, scalers, loaders, schedulers, the end."""

    def __init__(
        self,
        log: EventLog,
        sites: Sites,
        threads: ThreadOwnership,
        only: tuple[torch.optim.Optimizer, ...] = (),
        *,
        norms: bool = False,
    ) -> None:
        self.log = log
        self.sites = sites
        self.sync = GradientSync()
        arrivals = self.arrivals = Arrivals(sites, log)
        accounts = self.accounts = Accounts(log, sites, arrivals.underway, threads)
        self.cohorts = accounts.cohorts
        self.measures = Measures(accounts.modules.path, log.aside) if norms else None
        loaded = LoadedTensors()
        manual = self.manual = ManualChanges(accounts, loaded, self.sync)
        optimizers = self.optimizers = Optimizers(arrivals, accounts, manual, only)
        self.saved_state = SavedState(arrivals, accounts, optimizers, manual, loaded)
        self.fast_path = FastPath(arrivals, accounts, self.sync, manual.waiting, measuring=norms)
        parts = (arrivals, accounts, optimizers, manual, self.fast_path)
        self.backwards = Backwards(*parts, self.sync, self.measures)
        self.replicas = (
            ReplicaHistory(self.sync, accounts.modules) if log.rank is not None else None
        )
        self.steps = Steps(*parts, self.backwards, self.measures, self.replicas)
        self.zeros = Zeros(*parts)
        self.loader_states = LoaderStates()

    # Clipping and scaling

    def clips(self, parameters: list[torch.Tensor]) -> None:
        """Is about to clip these: what was done to them by hand is told first."""
        site = self.arrivals.arrive()
        if self.optimizers.newcomers:
            # Before the first backward, their accounts are not open yet.
            self.optimizers.settle()
            self.optimizers.adopt_newcomers_for(parameters)
        self.manual.notice(self._touched(parameters), site)

    def clipped(self, parameters: list[torch.Tensor], bound: float | None, norm: object) -> None:
        touched = self._touched(parameters)
        names = tuple([cohort.name for cohort in touched])
        if names:
            self.accounts.post(ev.Clip, self.sites.here(), names, bound, False)
        for cohort in touched:
            cohort.note(closely=not self.log.steady)
            if cohort.fresh and isinstance(norm, torch.Tensor):
                cohort.norms[MOST_NORMS - 1 :] = [norm.detach()]

    def clip_refused(self, parameters: list[torch.Tensor]) -> None:
        """There was no gradient to clip, and the call raised."""
        names = tuple([cohort.name for cohort in self._touched(parameters)])
        if names:
            self.accounts.post(ev.Clip, self.sites.here(), names, None, False, True)

    def _touched(self, parameters: list[torch.Tensor]) -> list[Cohort]:
        return self.cohorts.covered(parameters) or list(self.cohorts.touched(parameters))

    def noted(self, optimizer: torch.optim.Optimizer) -> None:
        """Its gradients were changed by something that is part of a larger event."""
        name = self.optimizers.name_of(optimizer)
        for cohort in self.optimizers.cohorts(name) if name else ():
            cohort.note(closely=not self.log.steady)

    def exhausted(self, use: str) -> None:
        self.accounts.post(ev.Exhaust, self.arrivals.arrive(), use)

    def scaled(self, output: torch.Tensor, scaler: object) -> None:
        name = self.optimizers.scaler_name(scaler, self.sites.here())
        node: Any = output.grad_fn
        if node is not None:
            losses.mark_scaled(node, name)
        if self.measures is not None:
            self.measures.scaled(output, scaler)
        self.accounts.post(ev.Scale, self.arrivals.arrive(), name)

    def unscales(self, optimizer: torch.optim.Optimizer) -> None:
        """Is about to divide what it owns: what was done to it by hand is told first."""
        name = self.optimizers.adopt(optimizer)
        if name is not None:
            site = self.arrivals.arrive()
            self.manual.notice(self.optimizers.cohorts(name), site)

    def unscaled(self, optimizer: torch.optim.Optimizer, scaler: object) -> None:
        name = self.optimizers.adopt(optimizer)
        if name is None:
            return
        site = self.sites.here()
        self.accounts.post(ev.Unscale, site, self.optimizers.scaler_name(scaler, site), name)
        for cohort in self.optimizers.cohorts(name):
            cohort.note(closely=not self.log.steady)

    def updated(self, scaler: object) -> None:
        site = self.arrivals.arrive()
        self.accounts.post(ev.Update, site, self.optimizers.scaler_name(scaler, site))

    # Loaders, schedulers, faults, ranks, the end

    @keep_from_compiler
    def fetched(self, iterator: Any) -> None:
        """A loader handed out a batch."""
        loaders = self.arrivals.loaders
        if self.loader_states.waiting:
            self._overrun(iterator)
        if loaders.latest() is iterator:
            if self.fast_path.again(None, iterator, ABOVE_TAP) is not None:
                loaders.in_a_row += 1
                return
        frame, site = self.sites.arrived()
        source = self.optimizers.loader_name(iterator, site)
        start, again = self.fast_path.start(), loaders.latest() is iterator
        ahead = self._fetched_ahead()
        loaders.fetched(source, iterator, site, ahead=ahead)
        if again and not ahead and frame is not None:
            self.arrivals.fetched(frame, site)
            self.fast_path.learn(start, None, subject=iterator)

    @keep_from_compiler
    def read_out(self, iterator: Any) -> None:
        """A loader has no batch left."""
        _, site = self.sites.arrived()
        self.arrivals.loaders.exhausted(self.optimizers.loader_name(iterator, site), site)

    def resumed(self, loader: object) -> None:
        """A loader was told where in its data to go on."""
        site = self.arrivals.arrive()
        name = self.optimizers.stateful_loader_name(loader, site)
        self.loader_states.told(loader, name)
        self.accounts.post(ev.Resume, site, name)

    def _overrun(self, iterator: object) -> None:
        name = self.loader_states.overrun(iterator)
        if name is not None:
            self.accounts.post(ev.Overrun, self.sites.here(), name)

    def _fetched_ahead(self) -> bool:
        """The fetch comes from a framework, or from a generator, which may hold the batch back."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(OURS_AND_TORCHS):
            frame = frame.f_back
        if frame is None:
            return False
        return bool(frame.f_code.co_flags & CO_GENERATOR) or not self.sites.is_user(frame.f_code)

    def ticked(self, scheduler: object, optimizer: torch.optim.Optimizer, *, metric: bool) -> None:
        owner = self.optimizers.adopt(optimizer)
        if owner is not None:
            site = self.arrivals.arrive()
            name = self.optimizers.scheduler_name(scheduler, site)
            self.accounts.post(ev.Tick, site, name, owner, metric)

    @keep_from_compiler
    def close(self) -> None:
        site = self.arrivals.last or self.sites.here()
        self.arrivals.loaders.release()
        self.log.flush()
        self.optimizers.give_up()
        thread = self.accounts.thread
        if thread is threading.current_thread() or not thread.is_alive():
            self.manual.notice(self.cohorts.everyone(), site)
        self.accounts.post(ev.Close, site)
        self.log.history.close()
        if self.replicas is not None:
            for name, optimizer in self.optimizers.named():
                self.replicas.end(name, optimizer)

    # Ranks

    def summed(self, tensor: torch.Tensor) -> None:
        """The program itself sums a tensor over the ranks: gradients, in place or as copies?"""
        if self.arrivals.underway.depth or tensor.layout is not torch.strided:
            return
        kept = [cohort for cohort in self.cohorts if cohort.unsynced and cohort.fresh]
        memory = storage_key(tensor)
        for cohort in kept:
            if any(storage_key(grad) == memory for grad in grads_of(cohort.marks)):
                self.accounts.post(ev.Reduce, self.arrivals.arrive(), (cohort.name,))
                self.sync.exchanged(cohort)
            elif tensor.numel() > 1:
                cohort.summed_aside = True

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
