"""By how much the parameters of two runs differ."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from gradkeeper.checkpoint import Store


@dataclass(frozen=True)
class Difference:
    parameter: str
    elements: int
    of: int
    most: float | None  # None where they cannot be subtracted
    what: str


@dataclass(frozen=True)
class Comparison:
    differences: tuple[Difference, ...]
    parameters: int
    optimizers: tuple[int, int]  # as many as each run built


def compare(whole: Path, resumed: Path) -> Comparison:
    """The last optimizers of both: a restart need not build those whose work is done."""
    one, other = _read(whole), _read(resumed)
    built = len(one["parameters"]), len(other["parameters"])
    shared = slice(-min(built), None) if all(built) else slice(0, 0)
    names = [
        name or f"parameter {number} of optimizer {owner}"
        for owner, names in list(enumerate(one["names"], 1))[shared]
        for number, name in enumerate(names, 1)
    ]
    pairs = list(zip_longest(_flat(one, shared), _flat(other, shared)))
    names += [f"parameter {number}" for number in range(len(names) + 1, len(pairs) + 1)]
    return Comparison(tuple(_compared(names, pairs)), len(pairs), built)


def _read(folder: Path) -> Any:
    found = Store(folder).load()
    if found is None:
        raise FileNotFoundError(folder)
    return found.state


def _flat(state: Any, shared: slice) -> list[torch.Tensor]:
    return [one for owned in state["parameters"][shared] for one in owned]


def _compared(names: list[str], pairs: list[tuple[Any, Any]]) -> Iterator[Difference]:
    for name, (one, other) in zip(names, pairs, strict=True):
        if one is None or other is None:
            run = "uninterrupted" if one is None else "killed"
            count = (one if other is None else other).numel()
            yield Difference(name, count, count, None, f"the {run} run does not have it")
        elif (one.dtype, one.shape) != (other.dtype, other.shape):
            count = one.numel()
            what = f"{_kind(one)} became {_kind(other)}"
            yield Difference(name, count, count, None, what)
        else:
            yield from _of_numbers(name, one, other)


def _of_numbers(name: str, one: torch.Tensor, other: torch.Tensor) -> Iterator[Difference]:
    wide = torch.complex128 if one.is_complex() else torch.float64
    left, right = one.to(wide), other.to(wide)
    differing = (left != right) & ~((left != left) & (right != right))
    count = int(differing.sum())
    if not count:
        if not torch.equal(_bytes(one), _bytes(other)):
            what = "equal numbers in other bits: the sign of a zero, or a NaN"
            yield Difference(name, 0, one.numel(), 0.0, what)
        return
    most = float((left - right)[differing].abs().nan_to_num(nan=torch.inf).max())
    what = f"{count:,} of {one.numel():,} elements, by at most {most:.3g}"
    yield Difference(name, count, one.numel(), most, what)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
