"""The accounts that a thread's events speak of: opened, described, split and cleared; and which
thread may look at which parameters."""

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.source_line import Sites
from gradkeeper.watcher.arrivals import Underway
from gradkeeper.watcher.effects import Cleared
from gradkeeper.watcher.event_log import EventLog
from gradkeeper.watcher.gradients import Cohort, Cohorts, all_finite, grads_of
from gradkeeper.watcher.names import ModuleMap, UserNames

Parted = Callable[[str, tuple[str, ...]], None]


class Accounts:
    def __init__(
        self, log: EventLog, sites: Sites, underway: Underway, threads: "ThreadOwnership"
    ) -> None:
        self.log = log
        self.modules = ModuleMap()
        self.cohorts = Cohorts(UserNames(sites), self.modules.path)
        self.thread = threading.current_thread()
        self.parted: list[Parted] = []
        """Told of each split: the whole's name, and those of its parts."""
        self.given_up: list[Cohort] = []
        """Another thread trains these, and this one had only heard of them."""
        self._underway = underway
        self._threads = threads

    def post(self, *key: Any) -> None:
        self.log.enter(key)

    def claim(self, parameters: list[torch.Tensor]) -> None:
        """Before these are looked at for the first time."""
        if not self._threads.claim(parameters, self):
            self.mute()

    def mute(self) -> None:
        """Another thread trains the same parameters: nothing is looked at or told any more."""
        self.log.muted = True
        for cohort in self.cohorts.everyone():
            cohort.let_go()

    def give_up(self, parameters: list[torch.Tensor]) -> bool:
        """Another thread is about to train these. False if this one has done so already."""
        mine = list(self.cohorts.touched(parameters))
        if any(cohort.used for cohort in mine):
            return False
        for cohort in mine:
            cohort.let_go()
        self.given_up += mine
        return True

    def split(self, cohort: Cohort, part: list[Any], site: Site) -> Cohort:
        """Parts some members from a cohort, in the books too; returns their new cohort."""
        if len(part) == len(cohort.marks):
            return cohort
        taken, rest = self.cohorts.split(cohort, part)
        self.log.flush()
        self.post(ev.Split, site, cohort.name, (taken.name, rest.name))
        self.describe(taken, site)
        self.describe(rest, site)
        for tell in self.parted:
            tell(cohort.name, (taken.name, rest.name))
        return taken

    def describe(self, cohort: Cohort, site: Site) -> None:
        parameters = tuple(self.cohorts.parameters(cohort))
        self.post(ev.Open, site, cohort.name, parameters, len(cohort.marks), cohort.trainable)

    def cleared(self, cohorts: list[Cohort], site: Site, *, to_none: bool) -> None:
        """Tells that gradients are cleared, and clears them."""
        if not cohorts:
            return
        names = tuple([cohort.name for cohort in cohorts])
        late = None
        if not self.log.steady:
            late = {"waived": any(self._unfit(member) for member in cohorts)}
        self.log.enter((ev.Zero, site, names, to_none, True, False, self._underway.within), late)
        Cleared(cohorts).apply()

    def _unfit(self, cohort: Cohort) -> bool:
        if not cohort.fresh or cohort.spent:
            return False
        self.log.unsettle()
        return not all_finite([*cohort.losses, *cohort.norms, *grads_of(cohort.marks)])


class ThreadOwnership:
    """Which thread a parameter belongs to.

    Reading `.grad` while another thread runs backward or zero_grad on the same parameter crashes
    the interpreter (torch 2.13: in 2 of 3 tries). So a parameter is looked at by one thread only:
    the one that trains it, whoever has built it. Where two train the same one (Hogwild), neither is
    watched any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, tuple[weakref.ref[torch.Tensor], Accounts]] = {}

    def claim(self, parameters: list[torch.Tensor], accounts: "Accounts") -> bool:
        """Takes these for somebody; False if another thread that still runs trains one of them."""
        with self._lock:
            rivals: dict[Accounts, list[torch.Tensor]] = {}
            for parameter in parameters:
                rival = self._rival(parameter, accounts)
                if rival is not None:
                    rivals.setdefault(rival, []).append(parameter)
                self._held[id(parameter)] = (weakref.ref(parameter), accounts)
        staying = [rival for rival, contested in rivals.items() if not rival.give_up(contested)]
        for rival in staying:
            rival.mute()
        return not staying

    def _rival(self, parameter: torch.Tensor, accounts: "Accounts") -> "Accounts | None":
        held = self._held.get(id(parameter))
        if held is None or held[0]() is not parameter or held[1] is accounts:
            return None
        return held[1] if held[1].thread.is_alive() else None
