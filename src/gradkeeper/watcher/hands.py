"""What was done by hand since the event before: gradients assigned, changed or cleared without
torch's own functions, weights moved, gradients read.

Told at the next event, so the line named is the one that noticed it, except where a gradient was
assigned: that line is known.
"""

import weakref
from typing import TYPE_CHECKING

import torch

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.watcher.cohorts import Cohort
from gradkeeper.watcher.marks import CLEARED, SAME, WRITTEN, Mark, all_zero, grads_of

if TYPE_CHECKING:
    from gradkeeper.watcher.keeper import Keeper

# A hand-made step follows the gradient this closely, or it is something else (momentum, noise).
COLLINEAR = 1e-3
MOST_ASSIGNED = 4096


class Hands:
    def __init__(self, keeper: "Keeper") -> None:
        self._keeper = keeper
        self.waiting: dict[Cohort, Site] = {}
        """Reads that are not told yet."""
        self._sites: dict[int, tuple[weakref.ref[torch.Tensor], Site]] = {}
        """Where gradients were last assigned, by parameter."""

    def notice(self, cohorts: list[Cohort], site: Site, *, crediting: bool = False) -> None:
        """Posts what happened to these; `crediting`: a backward is about to add to them."""
        closely = not self._keeper.journal.steady
        for cohort in cohorts:
            looked = cohort.look(closely=closely)
            if cohort.fresh and self._has_moved(cohort, looked):
                self._moved(cohort, site)
            for mark in looked:
                if mark.verdict() is not SAME:
                    break
            else:
                if crediting and cohort.spent and not cohort.fresh:
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
            by_verdict[max(by_verdict, key=lambda one: len(by_verdict[one]))] += unknown
        for verdict, marks in by_verdict.items():
            if verdict == SAME:
                continue
            part = self._keeper.split(cohort, marks, site)
            self._change(part, verdict, site)
            part.note(closely=True)
            if part is not cohort:
                rest = next((m for m in cohort.marks if m not in marks), None)
                parameter = rest.parameter() if rest else None
                found = self._keeper.cohorts.of(parameter) if parameter is not None else None
                cohort = found or cohort

    def _change(self, cohort: Cohort, verdict: str, site: Site) -> None:
        keeper = self._keeper
        if verdict == CLEARED:
            keeper.cleared([cohort], site, to_none=True)
            return
        if self._habit(cohort, verdict) == "zero":
            keeper.cleared([cohort], site, to_none=False)
        elif verdict == WRITTEN and (cohort.fresh or cohort.spent):
            keeper.post(ev.Adjust, site, (cohort.name,), True)
        else:
            # Replaced, or added to zeros: a gradient made by hand.
            self._assigned(cohort, site)

    def _habit(self, cohort: Cohort, verdict: str) -> str:
        """Whether gradients were zeroed or changed: their values tell, or how it went before."""
        journal, before = self._keeper.journal, cohort.habits.get(verdict)
        if journal.steady and before is not None:
            return before
        habit = cohort.habits[verdict] = "zero" if all_zero(cohort.marks) else "change"
        if before not in (None, habit):
            # One kind of write does both in this loop, so each is to be looked at.
            journal.unsettle()
        return habit

    def assigning(self, parameter: torch.Tensor, site: Site) -> None:
        """The user's line puts a gradient in place."""
        if len(self._sites) >= MOST_ASSIGNED:
            self._sites.clear()
        self._sites[id(parameter)] = (weakref.ref(parameter), site)

    def _assigned(self, cohort: Cohort, site: Site) -> None:
        if self._restored(cohort, site):
            return
        keeper = self._keeper
        keeper.post(ev.Assign, self._assigned_at(cohort) or site, (cohort.name,))
        cohort.zeroed()
        cohort.fresh = 1

    def opened(self, cohort: Cohort, site: Site) -> None:
        """A new account may hold gradients that were put there before it was known."""
        if grads_of(cohort.marks) and self._assigned_at(cohort) is not None:
            self._assigned(cohort, site)

    def _restored(self, cohort: Cohort, site: Site) -> bool:
        keeper = self._keeper
        if not keeper.stored.holds_grads_of(cohort.marks):
            return False
        site = self._assigned_at(cohort) or site
        keeper.post(ev.Restore, site, (cohort.name,), True, True)
        cohort.zeroed()
        cohort.fresh = 1
        return True

    def _assigned_at(self, cohort: Cohort) -> Site | None:
        """Where a member's gradient was put in place; not told in a steady loop."""
        for mark in cohort.marks:
            parameter = mark.parameter()
            known = self._sites.get(id(parameter))
            if known is not None and known[0]() is parameter:
                return known[1]
        return None

    def _look_at(self, cohort: Cohort, site: Site) -> None:
        """Spent, and about to be credited again: zeroed through `.data`, or not at all?"""
        if not self._keeper.journal.steady:
            cohort.zeroed_unseen = all_zero(cohort.marks)
        if cohort.zeroed_unseen:
            self._keeper.cleared([cohort], site, to_none=False)

    # Weights moved by hand

    def _has_moved(self, cohort: Cohort, looked: list[Mark]) -> bool:
        for mark in looked:
            if mark.moved():
                return True
        if cohort.memory is None:
            return False
        mark, weight, _ = cohort.memory
        now = mark.parameter()
        return now is not None and now.shape == weight.shape and not torch.equal(now, weight)

    def _moved(self, cohort: Cohort, site: Site) -> None:
        if cohort.memory is not None or not self._keeper.journal.steady:
            cohort.descends = self._along_gradient(cohort)
        self._keeper.post(ev.Move, site, (cohort.name,), cohort.descends)
        if cohort.descends:
            cohort.fresh = 0
            cohort.spent = True
        cohort.memory = None
        for mark in cohort.marks:
            mark.note_weight()

    def _along_gradient(self, cohort: Cohort) -> bool:
        if cohort.memory is None or cohort.owners:
            return False
        mark, weight, grad = cohort.memory
        now = mark.parameter()
        if now is None or grad is None or now.shape != weight.shape:
            return False
        with torch.no_grad():
            move, slope = (weight - now).flatten().double(), grad.flatten().double()
            length = float(slope @ slope)
            factor = float(move @ slope) / length if length else 0.0
            off = float((move - factor * slope).norm())
            return factor > 0 and off <= COLLINEAR * float(move.norm())

    # Gradients read for themselves

    def read(self, parameter: torch.Tensor, site: Site) -> None:
        cohort = self._keeper.cohorts.of(parameter)
        if cohort is not None and cohort.fresh:
            self.waiting[cohort] = site

    def _post_reads(self, cohorts: list[Cohort]) -> None:
        for cohort in cohorts:
            site = self.waiting.pop(cohort, None)
            if site is not None and cohort.fresh and cohort.name in self._keeper.cohorts.all:
                self._keeper.post(ev.Read, site, (cohort.name,))
