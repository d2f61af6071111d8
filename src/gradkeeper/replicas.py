"""Weights that several ranks should hold alike: after which steps they are looked at, by which
numbers, and who differs.

Three sums stand for each parameter, so that ranks tell each other little. They are compared with
some room for rounding: replicas that drifted apart by the last bit are no fault of a training loop.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gradkeeper.torch_private import held_here

ALWAYS = 4
ROUNDING = 32
"""So many times what the type rounds by, two replicas may be apart."""


def is_due(step: int) -> bool:
    """The first steps, then ever more rarely. The last one is for the caller to remember."""
    return step <= ALWAYS or step & (step - 1) == 0


class Sums(NamedTuple):
    """One rank's numbers of one parameter."""

    even: float
    odd: float
    """Of every other element."""
    norm: float


def sums_of(parameters: Sequence[Tensor]) -> list[Sums]:
    """Waits for the device once."""
    if not parameters:
        return []
    with torch.no_grad():
        rows = [_row(held_here(parameter.detach())) for parameter in parameters]
        device = rows[0].device
        table = torch.stack([row.to(device, non_blocking=True) for row in rows])
        return [Sums(*row) for row in table.tolist()]


def _row(values: Tensor) -> Tensor:
    real = torch.view_as_real(values) if values.is_complex() else values
    flat = real.reshape(-1)
    sums = [flat[first::2].sum(dtype=torch.float64) for first in (0, 1)]
    return torch.stack([*sums, torch.linalg.vector_norm(flat, dtype=torch.float64)])


def rounding_of(parameter: Tensor) -> float:
    return torch.finfo(parameter.dtype).eps if parameter.dtype.is_floating_point else 0.0


def odd_ones(sums: Sequence[Sums], rounding: float) -> tuple[int, ...]:
    """The places of those that differ from most of the others, or else from the first."""
    known = list(dict.fromkeys(sums))
    if len(known) < 2:
        return ()
    kinds: list[Sums] = []
    kind_of = [_kind(row, kinds, rounding) for row in sums]
    usual = Counter(kind_of).most_common(1)[0][0]
    return tuple(place for place, kind in enumerate(kind_of) if kind != usual)


def _kind(sums: Sums, kinds: list[Sums], rounding: float) -> int:
    for number, known in enumerate(kinds):
        if _is_close(sums, known, rounding):
            return number
    kinds.append(sums)
    return len(kinds) - 1


def _is_close(sums: Sums, other: Sums, rounding: float) -> bool:
    pairs = zip(sums, other, strict=True)
    if not all(map(math.isfinite, (*sums, *other))):
        return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)
    room = ROUNDING * rounding * max(sums.norm, other.norm)
    return all(abs(a - b) <= room for a, b in pairs)


class DifferingParameter(NamedTuple):
    """The first parameter that ranks hold differently, and who holds it otherwise than most."""

    parameter: int
    ranks: tuple[int, ...]


def first_difference(
    rows: Sequence[tuple[float, Sequence[tuple[int, Sums]]]],
) -> DifferingParameter | None:
    """`rows`: of each parameter what it rounds by, and the numbers of each rank that holds it."""
    for place, (rounding, held) in enumerate(rows):
        odd = odd_ones([sums for _, sums in held], rounding)
        if odd:
            return DifferingParameter(place, tuple(held[number][0] for number in odd))
    return None
