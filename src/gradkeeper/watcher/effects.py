"""What a call does to accounts, and what must hold for it to do the same again, as values.

The long way finds out what happened, makes these and applies them. In a steady loop the fast path
asks whether they still hold, and applies them again: what a zero, a backward or a step does is
written here once. Two of them do in one go what others do one after the other, because time counts;
tests hold them to that. Attributes lie in slots: a steady loop asks for some twenty at each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gradkeeper.torch_private import writes_into
from gradkeeper.watcher.gradients import Cohort, Mark, gradient_of, norms_are_finite


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
            for mark in cohort.turn() if cohort.due else cohort.few or cohort.marks:
                mark.grad, mark.known = None, True


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
            for mark in cohort.turn() if cohort.due else cohort.few or cohort.marks:
                mark.grad, mark.known = None, True


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
            cohort.due += 1
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
class Stepped:
    """The step is over, where that takes a look."""

    cohorts: Sequence[Cohort]

    def apply(self) -> None:
        for cohort in self.cohorts:
            cohort.stepped()


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
                reference, seen = mark.parameter, mark.grad
                parameter = reference()
                if parameter is None or not mark.known:
                    continue
                if waits and parameter._version != mark.weight_version:
                    return False
                grad = gradient_of(parameter)
                if grad is None:
                    if seen is not None:
                        return False
                elif seen is None or seen() is not grad or writes_into(grad) != mark.version:
                    return False
        return True


class CreditedAgain:
    """A backward has added to these, and to none of the others: what must hold, and what it does,
    in one look at each gradient."""

    __slots__ = ("_alone", "_cohorts", "_others")

    def __init__(self, cohorts: Sequence[Cohort], others: Sequence[Cohort]) -> None:
        self._cohorts, self._others = cohorts, others
        self._alone = cohorts[0] if len(cohorts) == 1 and not others else None

    def apply(self) -> bool:
        """False, and nothing is done, where it does not hold."""
        cohort = self._alone
        few = None if cohort is None else cohort.few
        if cohort is None or few is None or len(few) > 1:
            return self._apply_to_several()
        if not few[0].credit():
            return False
        cohort.fresh += 1
        return True

    def _apply_to_several(self) -> bool:
        credited, others = _looked_at(self._cohorts), _looked_at(self._others)
        if any(mark.is_credited() for mark in others):
            return False
        if not all(mark.is_credited() for mark in credited):
            return False
        Credited(self._cohorts).apply()
        return True


def _looked_at(cohorts: Sequence[Cohort]) -> list[Mark]:
    return [mark for cohort in cohorts for mark in cohort.few or cohort.marks]
