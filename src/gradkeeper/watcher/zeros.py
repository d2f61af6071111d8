"""Gradients cleared, by an optimizer, a module or by hand: which ones, and was anything lost."""

from collections.abc import Iterable

import torch

from gradkeeper.model import Site
from gradkeeper.torch_private import keep_from_compiler
from gradkeeper.watcher.accounts import Accounts
from gradkeeper.watcher.arrivals import Arrivals
from gradkeeper.watcher.effects import BecameNone, Emptied, Unchanged
from gradkeeper.watcher.fast_path import ABOVE_TAP, FastPath
from gradkeeper.watcher.gradients import Cohort
from gradkeeper.watcher.manual_changes import ManualChanges
from gradkeeper.watcher.optimizers import Optimizers


class Zeros:
    def __init__(
        self,
        arrivals: Arrivals,
        accounts: Accounts,
        optimizers: Optimizers,
        manual: ManualChanges,
        fast_path: FastPath,
    ) -> None:
        self._arrivals = arrivals
        self._accounts = accounts
        self._log, self._cohorts = accounts.log, accounts.cohorts
        self._optimizers = optimizers
        self._manual = manual
        self._fast_path = fast_path

    @keep_from_compiler
    def zero(self, parameters: list[torch.Tensor], *, to_none: bool) -> None:
        """Is about to zero these."""
        site = self._arrivals.arrive()
        touched = self._cohorts.covered(parameters) or list(self._cohorts.touched(parameters))
        self._manual.notice(touched, site)
        whole = self._cohorts.covered(parameters)
        if whole is None:
            whole = self._parted(parameters, site)
        self._accounts.cleared(whole, site, to_none=to_none)

    @keep_from_compiler
    def again(self, optimizer: torch.optim.Optimizer) -> bool:
        """What an optimizer owns is about to become None, as ever."""
        moment = self._fast_path.again(None, optimizer, ABOVE_TAP)
        if moment is None:
            return False
        self._arrivals.last = moment.site
        return True

    @keep_from_compiler
    def zero_owned(self, optimizer: torch.optim.Optimizer, *, to_none: bool) -> None:
        """Is about to zero what an optimizer owns."""
        name = self._optimizers.name_of(optimizer) or self._optimizers.adopt(optimizer)
        if name is None:
            return
        start = self._fast_path.start()
        site = self._arrivals.arrive()
        mine = self._optimizers.cohorts(name)
        waits = any(cohort.fresh for cohort in mine)
        if waits or not self._log.steady:
            self._manual.notice(mine, site)
            mine = self._optimizers.cohorts(name)
        self._accounts.cleared(mine, site, to_none=to_none)
        if to_none:
            # Where nothing waits, nothing that was done by hand is lost.
            expected = Unchanged(mine) if waits else None
            self._fast_path.learn(start, None, expected, BecameNone(mine), subject=optimizer)

    @keep_from_compiler
    def zeroed_owned(self, optimizer: torch.optim.Optimizer, *, to_none: bool) -> None:
        name = self._optimizers.name_of(optimizer)
        closely = not self._log.steady
        mine = self._optimizers.cohorts(name) if name else []
        if to_none:
            for cohort in mine:
                cohort.look(closely=closely)
            Emptied(mine).apply()
        else:
            self._look_anew(mine)

    def _parted(self, parameters: list[torch.Tensor], site: Site) -> list[Cohort]:
        """The cohorts of these parameters, cut to size where there is something to clear."""
        found: list[Cohort] = []
        for cohort, marks in self._cohorts.touched(parameters).items():
            if len(marks) == len(cohort.marks):
                found.append(cohort)
            elif cohort.fresh or cohort.spent:
                found.append(self._accounts.split(cohort, marks, site))
        return found

    @keep_from_compiler
    def zeroed(self, parameters: list[torch.Tensor]) -> None:
        """Has zeroed these: what is there now is known."""
        self._look_anew(self._cohorts.covered(parameters) or self._cohorts.touched(parameters))

    def _look_anew(self, zeroed: Iterable[Cohort]) -> None:
        closely = not self._log.steady
        for cohort in zeroed:
            if cohort.due and not closely:
                cohort.turn()
            cohort.note(closely=closely)
