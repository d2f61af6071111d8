"""What a loss is multiplied by on its way: numbers, and unknown ones above and below the line."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.values import Count, Unknown, Value

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


@dataclass(frozen=True, slots=True)
class Factor:
    """What a loss was multiplied by: a number, and unknown numbers above and below the line."""

    number: float | None = 1.0
    above: tuple[Hashable, ...] = ()
    below: tuple[Hashable, ...] = ()
    by_data: bool = False
    """Also by numbers that come with the batch: items in it, a mask's sum."""
    divisors: tuple[Hashable, ...] = field(default=(), compare=False)
    """What it was divided by, one after the other: numbers, and keys of unknown ones."""
    terms: int = field(default=1, compare=False)
    """Of how many losses it is the sum."""

    def times(self, other: Factor) -> Factor:
        if other is ONE and not (self.above and self.below):
            return self
        number = None
        if self.number is not None and other.number is not None:
            number = self.number * other.number
        above, below = [*self.above, *other.above], [*self.below, *other.below]
        for key in list(above):
            if key in below:
                above.remove(key)
                below.remove(key)
        return Factor(
            number,
            tuple(above),
            tuple(below),
            self.by_data or other.by_data,
            self.divisors + other.divisors,
            self.terms,
        )

    def twice(self, numbers: dict[Hashable, int]) -> int | None:
        """The number by which it was divided, and then divided again. One half may be a loss's
        own; what goes by the same name is not."""
        if len(self.divisors) != 2 or self.divisors[0] != self.divisors[1]:
            return None
        (found, _) = self.divisors
        if isinstance(found, float):
            return int(found) if found.is_integer() and found > HALVED else None
        number = numbers.get(found)
        return number if number is not None and number > 1 else None

    def value(self, numbers: dict[Hashable, int]) -> float | None:
        # What is divided by a window's length is a loss with its weight, whatever that may be.
        lengths = (*self.below, *self.divisors)
        unknown = 1 if any(numbers.get(key) for key in lengths) else None
        result = self.number
        for key in self.above:
            known = numbers.get(key, unknown)
            result = None if known is None or result is None else result * known
        for key in self.below:
            known = numbers.get(key, unknown)
            result = None if not known or result is None else result / known
        if self.by_data and result == 1.0:
            return None  # items of this batch, or of the whole window?
        return result


HALVED = 2
ONE = Factor()
UNKNOWN_FACTOR = Factor(None)


def factor_by(
    m: Machine, sign: str, other: Value, *, swapped: bool, terms: int = 1, mask: bool = False
) -> Factor:
    """What a loss, the sum of so many `terms`, is multiplied by when it meets this operand."""
    if sign not in ("*", "/"):
        return ONE
    if swapped and sign == "/":
        return UNKNOWN_FACTOR
    number = m.known_number(other)
    if isinstance(other, Count):
        number = other.value if isinstance(other.value, (int, float)) else None
    if number is not None:
        if sign == "/":
            by = other.key if isinstance(other, Unknown) else float(number)
            # A sum over its number of terms is their mean.
            divisors = () if number == terms or number == 1 else (by,)
            return Factor(1 / number, divisors=divisors) if number else UNKNOWN_FACTOR
        return Factor(float(number))
    if isinstance(other, Unknown) and other.fixed:
        m.kept.append(other)
        if sign == "/":
            return Factor(below=(other.key,), divisors=(other.key,))
        return Factor(above=(other.key,))
    if mask:
        # Or weights over the batch: still a loss per item.
        return ONE
    if isinstance(other, Unknown) and other.data:
        return Factor(by_data=True)
    return UNKNOWN_FACTOR


def heavier(factor: Factor, other: Factor) -> Factor:
    """The weight of a sum: that of its heaviest part. A part with no weight of its own tells it;
    where each is weighed by options of its own, nobody knows what they come to.

    A window's length is nobody's weight: it stands below the line, in all parts or in none.
    """
    if factor == other:
        return factor
    if ONE in (factor, other):
        return ONE  # whatever the rest is divided by, this part is not
    if factor.number is None or other.number is None or sorted_keys(factor) != sorted_keys(other):
        return UNKNOWN_FACTOR
    heavy = factor if abs(factor.number) >= abs(other.number) else other
    above = tuple(key for key in factor.above if key in other.above)
    if len(above) < min(len(factor.above), len(other.above)):
        return UNKNOWN_FACTOR
    return Factor(heavy.number, above, factor.below, factor.by_data or other.by_data)


def sorted_keys(factor: Factor) -> list[str]:
    return sorted(map(repr, factor.below))
