"""What was done by hand since the event before: gradients assigned, changed or cleared without
torch's own functions, weights moved, gradients read.

Told at the next event, so the line named is the one that noticed it, except where a gradient was
assigned, cleared, or read to move the weights along it: that line is known.
"""

import weakref
from typing import NamedTuple

import torch

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.torch_private import held_here
from gradkeeper.watcher.accounts import Accounts
from gradkeeper.watcher.gradient_sync import GradientSync
from gradkeeper.watcher.gradients import (
    CLEARED,
    SAME,
    WRITTEN,
    Cohort,
    Mark,
    gradient_of,
    grads_of,
    sample_of,
)
from gradkeeper.watcher.loaded_tensors import LoadedTensors

MOST_ASSIGNED = 4096
# What follows a gradient this closely is that gradient, scaled.
COLLINEAR = 1e-3


class Assigned(NamedTuple):
    """A gradient that the user's code put in place."""

    parameter: weakref.ref[torch.Tensor]
    site: Site
    loaded: bool
    """It is a copy of what was loaded, told at once: what was loaded may be gone soon."""


class ManualChanges:
    def __init__(self, accounts: Accounts, loaded: LoadedTensors, sync: GradientSync) -> None:
        self._accounts = accounts
        self._sync = sync
        self._log, self._cohorts = accounts.log, accounts.cohorts
        self._checkpoint = loaded
        self.waiting: dict[Cohort, Site] = {}
        """Reads that are not told yet."""
        self._sites: dict[int, Assigned] = {}
        """Where gradients were last assigned, by parameter."""
        self._clearings: dict[int, tuple[weakref.ref[torch.Tensor], Site, int]] = {}
        """Where gradients were last cleared, by parameter: in a steady loop, it is there again."""
        self._looks = 0

    def notice(self, cohorts: list[Cohort], site: Site, *, using: bool = False) -> None:
        """Posts what happened to these; `using`: they are about to be added to or spent."""
        closely = not self._log.steady
        self._looks += 1
        for cohort in cohorts:
            looked = cohort.look(closely=closely)
            if cohort.fresh and _has_moved(cohort, looked):
                self._moved(cohort, site)
            for mark in looked:
                if mark.verdict() is not SAME:
                    break
            else:
                if using and cohort.spent and not cohort.fresh:
                    self._look_at(cohort, site)
                continue
            self._settle(cohort, site)
        if self.waiting:
            self._post_reads(cohorts)

    def _settle(self, cohort: Cohort, site: Site) -> None:
        """Each kind of change is one event; members that differ part from the rest."""
        by_verdict: dict[str, list[Mark]] = {}
        for mark in cohort.marks:
            by_verdict.setdefault(mark.verdict() if mark.known else "", []).append(mark)
        unknown = by_verdict.pop("", [])
        if unknown:
            # Not looked at of late: they go with the others.
            by_verdict[max(by_verdict, key=lambda verdict: len(by_verdict[verdict]))] += unknown
        for verdict, marks in by_verdict.items():
            if verdict == SAME:
                continue
            part = self._accounts.split(cohort, marks, site)
            self._change(part, verdict, site)
            part.note(closely=True)
            if part is not cohort:
                rest = next((m for m in cohort.marks if m not in marks), None)
                parameter = rest.parameter() if rest else None
                found = self._cohorts.of(parameter) if parameter is not None else None
                cohort = found or cohort

    def _change(self, cohort: Cohort, verdict: str, site: Site) -> None:
        if verdict == CLEARED:
            self._accounts.cleared([cohort], self._cleared_at(cohort) or site, to_none=True)
            return
        habit = self._habit(cohort, verdict)
        if habit == "zero":
            self._accounts.cleared([cohort], self._cleared_at(cohort) or site, to_none=False)
        elif habit == "change":
            self._accounts.post(ev.Adjust, site, (cohort.name,), True)
        else:
            self._assigned(cohort, site)
        if cohort.unsynced and cohort.summed_aside and habit != "zero":
            self._accounts.post(ev.Reduce, site, (cohort.name,))
            self._sync.exchanged(cohort)

    def _habit(self, cohort: Cohort, verdict: str) -> str:
        """Whether gradients were zeroed, changed or made by hand: their values tell, or how it
        went before."""
        kind = (verdict, cohort.fresh > 0)
        log, before = self._log, cohort.habits.get(kind)
        if log.steady and before is not None:
            return before
        habit = cohort.habits[kind] = _what_was_done(cohort, verdict)
        if before not in (None, habit):
            # One kind of write does both in this loop, so each is to be looked at.
            log.unsettle()
        return habit

    def assigning(self, parameter: torch.Tensor, site: Site) -> None:
        """The user's line puts a gradient in place."""
        known = self._assignment(parameter)
        if known is not None and known.site == site:
            # Loaded once, if at all: a line that comes back is a loop's, and is not looked at.
            self._sites[id(parameter)] = known._replace(loaded=False)
            return
        if len(self._sites) >= MOST_ASSIGNED:
            self._sites.clear()
        grad = gradient_of(parameter)
        loaded = grad is not None and self._checkpoint.holds(grad)
        self._sites[id(parameter)] = Assigned(weakref.ref(parameter), site, loaded)

    def clearing(self, parameter: torch.Tensor, site: Site) -> None:
        """The user's line zeroes a gradient, or sets it to None."""
        known = self._clearings.get(id(parameter))
        if known is not None and known[2] == self._looks and known[0]() is parameter:
            return  # nothing has come in between: it was the first line that cleared it
        if len(self._clearings) >= MOST_ASSIGNED:
            self._clearings.clear()
        self._clearings[id(parameter)] = (weakref.ref(parameter), site, self._looks)

    def _cleared_at(self, cohort: Cohort) -> Site | None:
        for mark in cohort.marks:
            parameter = mark.parameter()
            known = self._clearings.get(id(parameter))
            if known is not None and known[0]() is parameter:
                return known[1]
        return None

    def _assigned(self, cohort: Cohort, site: Site) -> None:
        if self._restored(cohort, site):
            return
        self._accounts.post(ev.Assign, self._assigned_at(cohort) or site, (cohort.name,))
        cohort.zeroed()
        cohort.fresh = 1

    def opened(self, cohort: Cohort, site: Site) -> None:
        """A new account may hold gradients that were put there before it was known."""
        if grads_of(cohort.marks) and self._assigned_at(cohort) is not None:
            self._assigned(cohort, site)

    def _restored(self, cohort: Cohort, site: Site) -> bool:
        if not (self._loaded(cohort) or self._checkpoint.holds_grads_of(cohort.marks)):
            return False
        site = self._assigned_at(cohort) or site
        self._accounts.post(ev.Restore, site, (cohort.name,), True, True)
        cohort.zeroed()
        cohort.fresh = 1
        return True

    def _assigned_at(self, cohort: Cohort) -> Site | None:
        """Where a member's gradient was put in place; not told in a steady loop."""
        assignments = self._assignments(cohort)
        return assignments[0].site if assignments else None

    def _loaded(self, cohort: Cohort) -> bool:
        return any(assignment.loaded for assignment in self._assignments(cohort))

    def _assignments(self, cohort: Cohort) -> list[Assigned]:
        found = (self._assignment(mark.parameter()) for mark in cohort.marks)
        return [assigned for assigned in found if assigned is not None]

    def _assignment(self, parameter: torch.Tensor | None) -> Assigned | None:
        known = self._sites.get(id(parameter))
        return known if known is not None and known.parameter() is parameter else None

    def _look_at(self, cohort: Cohort, site: Site) -> None:
        """Spent, and about to be used again: zeroed or made anew through `.data`, or neither?"""
        if not self._log.steady:
            done = _what_was_done(cohort, WRITTEN)
            cohort.unseen = "" if done == "change" else done
        if cohort.unseen == "zero":
            self._accounts.cleared([cohort], self._cleared_at(cohort) or site, to_none=False)
        elif cohort.unseen == "make":
            self._assigned(cohort, site)
            cohort.note(closely=not self._log.steady)

    # Weights moved by hand

    def _moved(self, cohort: Cohort, site: Site) -> None:
        if cohort.memory is not None or not self._log.steady:
            cohort.descends = self._along_gradient(cohort)
        if not self._log.steady:
            cohort.moved_at = self.waiting.get(cohort)
        site = (cohort.moved_at or site) if cohort.descends else site
        self._accounts.post(ev.Move, site, (cohort.name,), cohort.descends)
        if cohort.descends:
            cohort.fresh = 0
            cohort.spent = True
        cohort.note_weights()

    def _along_gradient(self, cohort: Cohort) -> bool:
        if cohort.memory is None or cohort.owners:
            return False
        mark, weight, grad = cohort.memory
        now = _weight_now(mark)
        if now is None or grad is None or now.shape != weight.shape:
            return False
        # Momentum and noise do not follow it.
        with torch.no_grad():
            return _runs_along(weight - now, grad)

    # Gradients read for themselves

    def read(self, parameter: torch.Tensor, site: Site) -> None:
        cohort = self._cohorts.of(parameter)
        if cohort is not None and cohort.fresh:
            self.waiting[cohort] = site

    def _post_reads(self, cohorts: list[Cohort]) -> None:
        for cohort in cohorts:
            site = self.waiting.pop(cohort, None)
            if site is not None and cohort.fresh and cohort.name in self._cohorts.all:
                self._accounts.post(ev.Read, site, (cohort.name,))


def _has_moved(cohort: Cohort, looked: list[Mark]) -> bool:
    for mark in looked:
        if mark.moved():
            cohort.hidden = False
            return True
    if cohort.memory is None:
        return False
    mark, weight, _ = cohort.memory
    now = _weight_now(mark)
    if now is None or now.shape != weight.shape or torch.equal(now, weight):
        return False
    cohort.hidden = True
    return True


def _weight_now(mark: Mark) -> torch.Tensor | None:
    parameter = mark.parameter()
    return None if parameter is None else held_here(parameter)


def _what_was_done(cohort: Cohort, verdict: str) -> str:
    """To gradients that differ from what was last seen of them: "zero", "change" or "make"."""
    if _all_zero(cohort.marks):
        return "zero"
    if verdict != WRITTEN:
        return "make"
    if cohort.fresh:
        return "change"
    if not cohort.spent:
        return "make"  # added to zeros
    return "make" if _is_new_since_step(cohort) else "change"


def _is_new_since_step(cohort: Cohort) -> bool:
    """Zeroed and filled by hand in one go looks like any write: what was spent tells."""
    if cohort.left is None:
        return False
    mark, before = cohort.left
    now = sample_of(mark.grad_now())
    return now is not None and _is_another(now, before)


def _all_zero(marks: list[Mark]) -> bool:
    """Whether these gradients hold nothing but zeros. Reads values: the cold path only."""
    grads = grads_of(marks)
    with torch.no_grad():
        return bool(grads) and not any(_nonzero(held_here(grad)) for grad in grads)


def _nonzero(grad: torch.Tensor) -> bool:
    if grad.is_sparse:
        return grad._nnz() > 0 and bool(grad._values().any())
    return bool(grad.any())


def _is_another(now: torch.Tensor, before: torch.Tensor) -> bool:
    """Whether `now` is a new gradient: not what was there, and not that scaled or clipped.

    Reads values: the cold path only.
    """
    if now.shape != before.shape or now.dtype != before.dtype or now.device != before.device:
        return True
    if torch.allclose(now, before, rtol=0.0, atol=0.0, equal_nan=True):
        return False
    return now.numel() == 1 or not _runs_along(now, before)


def _runs_along(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether `tensor` is `other` times a positive number. Reads values: the cold path only."""
    move, slope = tensor.flatten().double(), other.flatten().double()
    length = float(slope @ slope)
    factor = float(move @ slope) / length if length else 0.0
    off = float((move - factor * slope).norm())
    return factor > 0 and off <= COLLINEAR * float(move.norm())
