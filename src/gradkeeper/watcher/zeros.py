"""Gradients cleared, by an optimizer, a module or by hand: which ones, and was anything lost."""

from typing import TYPE_CHECKING

import torch

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.watcher.gradients import Cohort, all_finite, grads_of

if TYPE_CHECKING:
    from gradkeeper.watcher.recorder import Keeper


class Zeroing:
    def __init__(self, keeper: "Keeper") -> None:
        self._keeper = keeper

    def zero(self, parameters: list[torch.Tensor], *, to_none: bool) -> None:
        """Is about to zero these."""
        keeper = self._keeper
        site = keeper.arrive()
        touched = keeper.cohorts.covered(parameters) or list(keeper.cohorts.touched(parameters))
        keeper.hands.notice(touched, site)
        whole = keeper.cohorts.covered(parameters)
        if whole is None:
            whole = self._parted(parameters, site)
        self.cleared(whole, site, to_none=to_none)

    def zero_owned(self, optimizer: torch.optim.Optimizer, *, to_none: bool) -> None:
        """Is about to zero what an optimizer owns."""
        keeper = self._keeper
        name = keeper.owners.name_of(optimizer) or keeper.owners.adopt(optimizer)
        if name is None:
            return
        start = keeper.routine.start()
        site = keeper.arrive()
        mine = keeper.owners.cohorts(name)
        waits = any(one.fresh for one in mine)
        if waits or not keeper.journal.steady:
            keeper.hands.notice(mine, site)
            mine = keeper.owners.cohorts(name)
        self.cleared(mine, site, to_none=to_none)
        if to_none:
            keeper.routine.learn(start, None, mine, optimizer, name, look=waits)

    def zeroed_owned(self, optimizer: torch.optim.Optimizer, *, to_none: bool) -> None:
        keeper = self._keeper
        name = keeper.owners.name_of(optimizer)
        closely = not keeper.journal.steady
        for cohort in keeper.owners.cohorts(name) if name else ():
            for mark in cohort.look(closely=closely):
                if to_none:
                    mark.grad = None
                else:
                    mark.note()

    def _parted(self, parameters: list[torch.Tensor], site: Site) -> list[Cohort]:
        """The cohorts of these parameters, cut to size where there is something to clear."""
        keeper = self._keeper
        found: list[Cohort] = []
        for cohort, marks in keeper.cohorts.touched(parameters).items():
            if len(marks) == len(cohort.marks):
                found.append(cohort)
            elif cohort.fresh or cohort.spent:
                found.append(keeper.split(cohort, marks, site))
        return found

    def cleared(self, cohorts: list[Cohort], site: Site, *, to_none: bool) -> None:
        if not cohorts:
            return
        keeper = self._keeper
        names = tuple([cohort.name for cohort in cohorts])
        late = None
        if not keeper.journal.steady:
            late = {"waived": any(self._unfit(one) for one in cohorts)}
        keeper.journal.enter(
            (ev.Zero, site, names, to_none, True, False, keeper.stepping.within), late
        )
        for cohort in cohorts:
            cohort.clear()

    def zeroed(self, parameters: list[torch.Tensor]) -> None:
        """Has zeroed these: what is there now is known."""
        keeper = self._keeper
        closely = not keeper.journal.steady
        for cohort in keeper.cohorts.covered(parameters) or keeper.cohorts.touched(parameters):
            cohort.note(closely=closely)

    def _unfit(self, cohort: Cohort) -> bool:
        if not cohort.fresh or cohort.spent:
            return False
        self._keeper.journal.unsettle()
        return not all_finite([*cohort.losses, *cohort.norms, *grads_of(cohort.marks)])
