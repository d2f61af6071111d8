"""What a call does to accounts, and what must hold for it to do the same again, as values.

The long way finds out what happened, makes these and applies them. In a steady loop the fast path
asks whether they still hold, and applies them again: what a zero, a backward or a step does is
written here once. Two of them do in one go what others do one after the other, because time counts;
tests hold them to that.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from weakref import ref

from gradkeeper.torch_private import is_sharded
from gradkeeper.watcher.gradients import Cohort, gradient_of, norms_are_finite


class Effect(Protocol):
    def apply(self) -> None: ...


class BecameNone(NamedTuple):
    """`Cleared` and `Emptied`, in one go."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            cohort.clear()
            for mark in cohort.few or cohort.marks:
                mark.grad = None


class Cleared(NamedTuple):
    """Zeroed, whatever they hold."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            cohort.clear()


class Emptied(NamedTuple):
    """Their gradients are None."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            for mark in cohort.few or cohort.marks:
                mark.grad = None


class Credited(NamedTuple):
    """A backward has added to them."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            cohort.fresh += 1
            for mark in cohort.few or cohort.marks:
                mark.note()


class Spent(NamedTuple):
    """A step of `owner` was taken."""

    cohorts: Sequence[Cohort]
    owner: str

    def apply(self) -> None:
        for cohort in self.cohorts:
            cohort.spend(self.owner)


class Turned(NamedTuple):
    """The step is over: other members have their turn to be looked at."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            cohort.turn()


class Expected(Protocol):
    def holds(self) -> bool: ...


class Unchanged(NamedTuple):
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


class CreditedAgain(NamedTuple):
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
                grad = None if parameter is None or not mark.known else gradient_of(parameter)
                if parameter is None or grad is None:
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
