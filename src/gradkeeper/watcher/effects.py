"""What a call does to accounts, and what must hold for it to do the same again, as values.

The long way finds out what happened, makes these and applies them. In a steady loop the fast path
asks whether they still hold, and applies them again: what a zero, a backward or a step does is
written here once. Two of them do in one go what others do one after the other, because time counts;
tests hold them to that. Attributes lie in slots: a steady loop asks for some twenty at each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import ref

from gradkeeper.torch_private import is_sharded
from gradkeeper.watcher.gradients import Cohort, gradient_of, norms_are_finite


class Effect(Protocol):
    def apply(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BecameNone:
    """`Cleared` and `Emptied`, in one go."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            if cohort.fresh:
                cohort.clear()
            else:
                cohort.zeroed()
            for mark in cohort.few or cohort.marks:
                mark.grad = None


@dataclass(frozen=True, slots=True)
class Cleared:
    """Zeroed, whatever they hold."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            cohort.clear()


@dataclass(frozen=True, slots=True)
class Emptied:
    """Their gradients are None."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            for mark in cohort.few or cohort.marks:
                mark.grad = None


@dataclass(frozen=True, slots=True)
class Credited:
    """A backward has added to them."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            cohort.fresh += 1
            for mark in cohort.few or cohort.marks:
                mark.note()


@dataclass(frozen=True, slots=True)
class Spent:
    """A step of `owner` was taken."""

    cohorts: Sequence[Cohort]
    owner: str

    def apply(self) -> None:
        for cohort in self.cohorts:
            if not (cohort.fresh or cohort.spent):
                continue
            cohort.fresh = 0
            cohort.spent = True
            cohort.spenders.add(self.owner)
            if cohort.losses:
                cohort.losses.clear()
            if cohort.norms:
                cohort.norms.clear()
            cohort.memory = None


@dataclass(frozen=True, slots=True)
class Turned:
    """The step is over: other members have their turn to be looked at."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            cohort.turn()


class Expected(Protocol):
    def holds(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Nothing was done to them by hand since they were last seen."""

    cohorts: Sequence[Cohort]

    def holds(self) -> bool:
        for cohort in self.cohorts:
            few = cohort.few
            if few is None or cohort.memory is not None or cohort.unseen:
                return False
            if cohort.norms and not norms_are_finite(cohort.norms):
                return False
            waits = cohort.fresh
            for mark in few:
                # `verdict`, and `moved` while something waits: in one look, for speed.
                parameter = mark.parameter()
                if parameter is None or not mark.known:
                    continue
                if waits and parameter._version != mark.weight_version:
                    return False
                grad, seen = gradient_of(parameter), mark.grad
                if grad is None:
                    if seen is not None:
                        return False
                elif seen is None or seen() is not grad or grad._version != mark.version:
                    return False
        return True


@dataclass(frozen=True, slots=True)
class CreditedAgain:
    """A backward has added to these, and to none of the others: what must hold, and what it does,
    in one look at each gradient."""

    cohorts: Sequence[Cohort]
    others: Sequence[Cohort]

    def apply(self) -> bool:
        """False, and nothing is done, where it does not hold."""
        for cohort in self.others:
            for mark in cohort.few or cohort.marks:
                if mark.is_credited():
                    return False
        seen = []
        for cohort in self.cohorts:
            for mark in cohort.few or cohort.marks:
                parameter = mark.parameter()
                if parameter is None or not mark.known:
                    return False
                grad = gradient_of(parameter)
                if grad is None:
                    return False
                known, version = mark.grad, grad._version
                if known is None or known() is not grad:
                    known = ref(grad)
                elif version == mark.version and not is_sharded(parameter):
                    return False
                seen.append((mark, known, version, parameter._version))
        for mark, known, version, weight_version in seen:
            mark.grad, mark.version, mark.weight_version = known, version, weight_version
        for cohort in self.cohorts:
            cohort.fresh += 1
        return True
