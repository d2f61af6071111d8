"""Steps: which optimizer's is under way, through which scaler, and what it spends."""

import torch

from gradkeeper.model import events as ev
from gradkeeper.torch_private import keep_from_compiler
from gradkeeper.watcher.accounts import Accounts
from gradkeeper.watcher.arrivals import Arrivals
from gradkeeper.watcher.backwards import Backwards
from gradkeeper.watcher.effects import Spent, Stepped, Unchanged
from gradkeeper.watcher.fast_path import ABOVE_TAP, FastPath, Moment
from gradkeeper.watcher.gradients import Cohort, all_finite, grads_of, norms_are_finite
from gradkeeper.watcher.manual_changes import ManualChanges
from gradkeeper.watcher.measures import Measures
from gradkeeper.watcher.optimizers import Optimizers, signature_of
from gradkeeper.watcher.replicas import ReplicaHistory

ABOVE_HOOK = ABOVE_TAP + 1
"""A hook of `step` is called by torch's own wrapper around it."""


class Steps:
    def __init__(
        self,
        arrivals: Arrivals,
        accounts: Accounts,
        optimizers: Optimizers,
        manual: ManualChanges,
        fast_path: FastPath,
        backwards: Backwards,
        measures: Measures | None,
        replicas: ReplicaHistory | None,
    ) -> None:
        self._arrivals = arrivals
        self._accounts = accounts
        self._log = accounts.log
        self._optimizers = optimizers
        self._manual = manual
        self._fast_path = fast_path
        self._backwards = backwards
        self._measures = measures
        self._replicas = replicas
        self._underway = arrivals.underway
        self.taken = False
        """Whether the step that a scaler was asked for has reached its optimizer."""
        self._expected: Moment | None = None
        """How the running step began, if as ever and nothing else has happened in it."""
        accounts.log.broken.append(self._expect_nothing)
        accounts.cohorts.changed.append(self._expect_nothing)
        self.check_finite = False
        """The values of what every step spends are looked at, at the price of waiting for them."""

    def _expect_nothing(self) -> None:
        self._expected = None

    @keep_from_compiler
    def begins(self, optimizer: torch.optim.Optimizer, *, closure: bool) -> None:
        self._expected = None
        name = self._optimizers.adopt(optimizer)
        if name is None:
            return
        self._underway.forget_raised(begun=1)
        if self._underway.running or closure:
            self._underway.running.append(name)
            return
        start = None if self.check_finite else self._fast_path.start()
        spent = self._step(optimizer, name)
        mine = self._optimizers.cohorts(name)
        what = _kind_of(optimizer, self._underway.scaling)
        looks = any(cohort.due > 1 or cohort.written for cohort in mine)
        later = Stepped(mine) if looks else None
        self._fast_path.learn(
            start, what, Unchanged(mine), spent, subject=optimizer, name=name, later=later
        )
        self.taken = True
        self._underway.running.append(name)

    @keep_from_compiler
    def again(self, optimizer: torch.optim.Optimizer) -> bool:
        """A step begins as ever."""
        underway = self._underway
        # A fused optimizer that a scaler calls decides by found_inf itself.
        if underway.depth or "found_inf" in optimizer.__dict__:
            return False
        what = _kind_of(optimizer, underway.scaling)
        moment = self._fast_path.again(what, optimizer, ABOVE_HOOK)
        if moment is None:
            return False
        self._arrivals.last = moment.site
        self._expected = moment
        self.taken = True
        underway.running.append(moment.name)
        return True

    @keep_from_compiler
    def ends_again(self, optimizer: torch.optim.Optimizer) -> bool:
        """The step that began as ever is over, and nothing else happened in it."""
        moment, running = self._expected, self._underway.running
        if moment is None or len(running) != 1:
            return False
        whose, later = moment.subject, moment.later
        if whose is None or whose() is not optimizer:
            return False
        self._expected = None
        if later is not None:
            later()
        if self._replicas is not None:
            self._replicas.stepped(moment.name, optimizer, moment.site)
        running.clear()
        return True

    @keep_from_compiler
    def ends(self, optimizer: torch.optim.Optimizer, *, closure: bool) -> None:
        name = self._optimizers.name_of(optimizer)
        if name is None or name not in self._underway.running:
            return
        while self._underway.running.pop() != name:
            pass
        if self._underway.running:
            return
        if closure:
            for cohort in self._optimizers.cohorts(name):
                # It was this step that moved them, and nobody's hand.
                cohort.note_weights()
            self._step(optimizer, name)
        if self._replicas is not None and self._arrivals.last is not None:
            self._replicas.stepped(name, optimizer, self._arrivals.last)
        mine = self._optimizers.cohorts(name)
        if self._log.steady:
            Stepped(mine).apply()
            return
        for cohort in mine:
            cohort.left_by_step()

    @keep_from_compiler
    def scaler_begins(self, scaler: object, optimizer: torch.optim.Optimizer) -> None:
        site = self._arrivals.arrive(step=True)
        self._underway.scaling = self._optimizers.scaler_name(scaler, site)
        self.taken = False
        self._optimizers.adopt(optimizer)
        name = self._optimizers.name_of(optimizer)
        if name is not None:
            self._manual.notice(self._optimizers.cohorts(name), site, using=True)

    @keep_from_compiler
    def scaler_ends(self, optimizer: torch.optim.Optimizer) -> None:
        name = self._optimizers.name_of(optimizer)
        if name is not None and not self.taken:
            self._accounts.post(
                ev.Step, self._arrivals.arrive(step=True), name, False, self._underway.scaling, None
            )
        self._underway.scaling = None

    def _step(self, optimizer: torch.optim.Optimizer, name: str) -> Spent | None:
        """Tells of a step, and does to the accounts what it does; returns that."""
        if self._underway.depth:
            self._backwards.inside_backward(name)
        site = self._arrivals.arrive(step=True)
        self._manual.notice(self._optimizers.cohorts(name), site, using=True)
        mine = self._optimizers.cohorts(name)
        for cohort in mine:
            cohort.used = True
            if not cohort.trainable and not self._log.steady and cohort.wants_gradient():
                cohort.trainable = True  # it was held still when the books were opened
                self._accounts.describe(cohort, site)
        self.taken = True
        taken = not _refused(optimizer)
        self._backwards.kept.steps += 1
        finite = self._finite(name, mine) if taken else None
        if taken and self._measures is not None:
            self._measures.step(name, mine, site)
        key = (ev.Step, site, name, taken, self._underway.scaling, finite)
        self._log.enter((*key, None, None, True) if self._underway.depth else key)
        if not taken:
            return None
        spent = Spent(mine, name)
        spent.apply()
        return spent

    def _finite(self, name: str, mine: list[Cohort]) -> bool | None:
        """False if a norm that is at hand on the host says so, or, now and then while the loop is
        not steady yet (or always, if asked for), the gradients themselves; None otherwise."""
        if self.check_finite or (not self._log.steady and self._optimizers.due(name)):
            fresh = [grad for cohort in mine if cohort.fresh for grad in grads_of(cohort.marks)]
            return None if all_finite(fresh) else False
        for cohort in mine:
            if cohort.norms and not norms_are_finite(cohort.norms):
                return False
        return None


def _kind_of(optimizer: torch.optim.Optimizer, scaling: str | None) -> object:
    """A step of another kind makes another event."""
    signature = signature_of(optimizer)
    return signature if scaling is None else (signature, scaling)


def _refused(optimizer: torch.optim.Optimizer) -> bool:
    """A fused optimizer that a scaler calls decides by found_inf itself. Read on the host only."""
    found = getattr(optimizer, "found_inf", None)
    if not isinstance(found, torch.Tensor) or found.device.type != "cpu":
        return False
    return bool(found.item())
