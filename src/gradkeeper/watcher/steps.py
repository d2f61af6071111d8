"""Steps: which optimizer's is under way, through which scaler, and what it spends."""

import inspect
import sys
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import torch

from gradkeeper.model import events as ev
from gradkeeper.watcher.effects import Effect, Spent, Turned, Unchanged
from gradkeeper.watcher.fast_path import Moment
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
        self._expected: Moment | None = None
        """How the running step began, if as ever."""
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
        if self.running or closure:
            self.running.append(name)
            return
        start = recorder.fast_path.start()
        effects = self._step(optimizer, name)
        began, mine = Began(self, name), recorder.optimizers.cohorts(name)
        recorder.fast_path.learn(
            start,
            (self.scaling, signature_of(optimizer)),
            Unchanged(mine),
            (*effects, began),
            subject=optimizer,
            later=(Turned(mine),),
        )
        began.apply()

    def again(self, optimizer: torch.optim.Optimizer) -> bool:
        """A step begins as ever."""
        recorder = self._recorder
        # A fused optimizer that a scaler calls decides by found_inf itself.
        if self.check_finite or recorder.backwards.depth or "found_inf" in optimizer.__dict__:
            return False
        moment = recorder.fast_path.again((self.scaling, signature_of(optimizer)), optimizer)
        if moment is None:
            return False
        recorder.last = moment.arrival.site
        self._expected = moment
        return True

    def ends_again(self, optimizer: torch.optim.Optimizer) -> bool:
        """The step that began as ever is over, and nothing else happened in it."""
        moment, self._expected = self._expected, None
        if moment is None or moment.subject() is not optimizer or len(self.running) != 1:
            return False
        if not self._recorder.fast_path.is_over(moment):
            return False
        self.running.clear()
        return True

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
        mine = recorder.optimizers.cohorts(name)
        if recorder.log.steady:
            Turned(mine).apply()
            return
        for cohort in mine:
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

    def _step(self, optimizer: torch.optim.Optimizer, name: str) -> tuple[Effect, ...]:
        """Tells of a step, and does to the accounts what it does; returns that."""
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
            return ()
        spent = Spent(mine, name)
        spent.apply()
        return (spent,)

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


class Began(NamedTuple):
    """A step of `owner` is under way; whatever comes until its end happens in it."""

    steps: Steps
    owner: str

    def apply(self) -> None:
        self.steps.taken = True
        self.steps.running.append(self.owner)


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
