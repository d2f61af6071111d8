"""Gradients cleared, by an optimizer, a module or by hand: which ones, and was anything lost."""

from typing import TYPE_CHECKING

import torch

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.watcher.effects import Cleared, Emptied, Unchanged
from gradkeeper.watcher.gradients import Cohort, all_finite, grads_of

if TYPE_CHECKING:
    from gradkeeper.watcher.recorder import Recorder


class Zeros:
    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder

    def zero(self, parameters: list[torch.Tensor], *, to_none: bool) -> None:
        """Is about to zero these."""
        recorder = self._recorder
        site = recorder.arrive()
        touched = recorder.cohorts.covered(parameters) or list(recorder.cohorts.touched(parameters))
        recorder.manual.notice(touched, site)
        whole = recorder.cohorts.covered(parameters)
        if whole is None:
            whole = self._parted(parameters, site)
        self.cleared(whole, site, to_none=to_none)

    def again(self, optimizer: torch.optim.Optimizer) -> bool:
        """What an optimizer owns is about to become None, as ever."""
        moment = self._recorder.fast_path.again(None, optimizer)
        if moment is None:
            return False
        self._recorder.last = moment.arrival.site
        return True

    def zero_owned(self, optimizer: torch.optim.Optimizer, *, to_none: bool) -> None:
        """Is about to zero what an optimizer owns."""
        recorder = self._recorder
        name = recorder.optimizers.name_of(optimizer) or recorder.optimizers.adopt(optimizer)
        if name is None:
            return
        start = recorder.fast_path.start()
        site = recorder.arrive()
        mine = recorder.optimizers.cohorts(name)
        waits = any(one.fresh for one in mine)
        if waits or not recorder.log.steady:
            recorder.manual.notice(mine, site)
            mine = recorder.optimizers.cohorts(name)
        self.cleared(mine, site, to_none=to_none)
        if to_none:
            expected = Unchanged(mine if waits else ())
            effects = (Cleared(mine), Emptied(mine))
            recorder.fast_path.learn(start, None, expected, effects, subject=optimizer)

    def zeroed_owned(self, optimizer: torch.optim.Optimizer, *, to_none: bool) -> None:
        recorder = self._recorder
        name = recorder.optimizers.name_of(optimizer)
        closely = not recorder.log.steady
        mine = recorder.optimizers.cohorts(name) if name else []
        for cohort in mine:
            looked = cohort.look(closely=closely)
            for mark in looked if not to_none else ():
                mark.note()
        if to_none:
            Emptied(mine).apply()

    def _parted(self, parameters: list[torch.Tensor], site: Site) -> list[Cohort]:
        """The cohorts of these parameters, cut to size where there is something to clear."""
        recorder = self._recorder
        found: list[Cohort] = []
        for cohort, marks in recorder.cohorts.touched(parameters).items():
            if len(marks) == len(cohort.marks):
                found.append(cohort)
            elif cohort.fresh or cohort.spent:
                found.append(recorder.split(cohort, marks, site))
        return found

    def cleared(self, cohorts: list[Cohort], site: Site, *, to_none: bool) -> None:
        if not cohorts:
            return
        recorder = self._recorder
        names = tuple([cohort.name for cohort in cohorts])
        late = None
        if not recorder.log.steady:
            late = {"waived": any(self._unfit(one) for one in cohorts)}
        recorder.log.enter(
            (ev.Zero, site, names, to_none, True, False, recorder.steps.within), late
        )
        Cleared(cohorts).apply()

    def zeroed(self, parameters: list[torch.Tensor]) -> None:
        """Has zeroed these: what is there now is known."""
        recorder = self._recorder
        closely = not recorder.log.steady
        for cohort in recorder.cohorts.covered(parameters) or recorder.cohorts.touched(parameters):
            cohort.note(closely=closely)

    def _unfit(self, cohort: Cohort) -> bool:
        if not cohort.fresh or cohort.spent:
            return False
        self._recorder.log.unsettle()
        return not all_finite([*cohort.losses, *cohort.norms, *grads_of(cohort.marks)])
