"""Steps: which optimizer's is under way, through which scaler, and what it spends."""

import inspect
import sys
from types import FrameType
from typing import TYPE_CHECKING

import torch

from gradkeeper.model import events as ev
from gradkeeper.watcher.gradients import Cohort, all_finite, grads_of, norms_are_finite
from gradkeeper.watcher.optimizers import signature_of

if TYPE_CHECKING:
    from gradkeeper.watcher.recorder import Recorder

OPTIMIZERS = inspect.getfile(torch.optim.Optimizer)


class Steps:
    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder
        self.running: list[str] = []
        """Optimizers whose step is under way, outermost first."""
        self.taken = False
        """Whether the step that a scaler was asked for has reached its optimizer."""
        self.scaling: str | None = None
        """The scaler through which the running step was called."""
        self.check_finite = False
        """The values of what every step spends are looked at, at the price of waiting for them."""

    @property
    def within(self) -> str | None:
        """The optimizer whose step, or closure, all this happens in."""
        return self.running[0] if self.running else None

    def begins(self, optimizer: torch.optim.Optimizer, *, closure: bool) -> None:
        recorder = self._recorder
        name = recorder.optimizers.adopt(optimizer)
        if name is None:
            return
        self.forget_raised(begun=1)
        if not self.running and not closure:
            start = recorder.fast_path.start()
            self._step(optimizer, name)
            what = (self.scaling, signature_of(optimizer))
            recorder.fast_path.learn(
                start, what, recorder.optimizers.cohorts(name), optimizer, name
            )
        self.running.append(name)

    def ends(self, optimizer: torch.optim.Optimizer, *, closure: bool) -> None:
        recorder = self._recorder
        name = recorder.optimizers.name_of(optimizer)
        if name is None or name not in self.running:
            return
        while self.running.pop() != name:
            pass
        if self.running:
            return
        if closure:
            self._step(optimizer, name)
        for cohort in recorder.optimizers.cohorts(name):
            if recorder.log.steady:
                cohort.turn()
            else:
                cohort.note(closely=True)
                cohort.leave()

    def forget_raised(self, *, begun: int = 0) -> None:
        """A step that raised has told us of its beginning only: what runs is on the stack.

        `begun`: one of those there has not been told yet.
        """
        if self.running:
            del self.running[_steps_under_way() - begun :]

    def scaler_begins(self, scaler: object, optimizer: torch.optim.Optimizer) -> None:
        recorder = self._recorder
        site = recorder.arrive(step=True)
        self.scaling = recorder.optimizers.scaler_name(scaler, site)
        self.taken = False
        recorder.optimizers.adopt(optimizer)
        name = recorder.optimizers.name_of(optimizer)
        if name is not None:
            recorder.manual.notice(recorder.optimizers.cohorts(name), site, using=True)

    def scaler_ends(self, optimizer: torch.optim.Optimizer) -> None:
        recorder = self._recorder
        name = recorder.optimizers.name_of(optimizer)
        if name is not None and not self.taken:
            recorder.post(ev.Step, recorder.arrive(step=True), name, False, self.scaling, None)
        self.scaling = None

    def _step(self, optimizer: torch.optim.Optimizer, name: str) -> None:
        recorder = self._recorder
        if recorder.backwards.depth:
            recorder.backwards.inside_backward(name)
        site = recorder.arrive(step=True)
        recorder.manual.notice(recorder.optimizers.cohorts(name), site, using=True)
        mine = recorder.optimizers.cohorts(name)
        self.taken = True
        taken = not _refused(optimizer)
        finite = self._finite(name, mine) if taken else None
        if taken and recorder.measures is not None:
            recorder.measures.step(name, mine, site)
        recorder.log.enter((ev.Step, site, name, taken, self.scaling, finite))
        if not taken:
            return
        for cohort in mine:
            cohort.spend(name)

    def _finite(self, name: str, mine: list[Cohort]) -> bool | None:
        """False if a norm that is at hand on the host says so, or, now and then while the loop is
        not steady yet (or always, if asked for), the gradients themselves; None otherwise."""
        recorder = self._recorder
        if self.check_finite or (not recorder.log.steady and recorder.optimizers.due(name)):
            fresh = [grad for cohort in mine if cohort.fresh for grad in grads_of(cohort.marks)]
            return None if all_finite(fresh) else False
        for cohort in mine:
            if cohort.norms and not norms_are_finite(cohort.norms):
                return False
        return None


def _steps_under_way() -> int:
    count = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "wrapper" and code.co_filename == OPTIMIZERS:
            count += 1
        frame = frame.f_back
    return count


def _refused(optimizer: torch.optim.Optimizer) -> bool:
    """A fused optimizer that a scaler calls decides by found_inf itself. Read on the host only."""
    found = getattr(optimizer, "found_inf", None)
    if not isinstance(found, torch.Tensor) or found.device.type != "cpu":
        return False
    return bool(found.item())
