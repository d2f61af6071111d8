"""What differs between two states, value by value and bit by bit."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradkeeper.checkpoint.codec import KeyPath, spelled

if TYPE_CHECKING:
    import numpy
    import torch

MISSING = object()
MOST_ONE_BY_ONE = 16
"""Longer lists of numbers, such as the state of Python's random generator, are one difference."""


@dataclass(frozen=True)
class Difference:
    where: str
    what: str


def differences(value: Any, other: Any, path: KeyPath = ()) -> Iterator[Difference]:
    if type(value) is not type(other) or value is MISSING:
        yield Difference(spelled("state", path), _in_words(value, other))
    elif isinstance(value, dict):
        for key in {**value, **other}:
            yield from differences(value.get(key, MISSING), other.get(key, MISSING), (*path, key))
    elif isinstance(value, list | tuple):
        yield from _of_lists(value, other, path)
    else:
        what = _of_leaves(value, other)
        if what:
            yield Difference(spelled("state", path), what)


def _of_lists(value: Any, other: Any, path: KeyPath) -> Iterator[Difference]:
    if len(value) == len(other) > MOST_ONE_BY_ONE and _all_numbers((*value, *other)):
        count = sum(_bits(left) != _bits(right) for left, right in zip(value, other, strict=True))
        if count:
            yield Difference(spelled("state", path), f"{count:,} of {len(value):,} numbers differ")
        return
    for number in range(max(len(value), len(other))):
        left = value[number] if number < len(value) else MISSING
        right = other[number] if number < len(other) else MISSING
        yield from differences(left, right, (*path, number))


def _all_numbers(values: tuple[Any, ...]) -> bool:
    return all(isinstance(value, int | float) for value in values)


@dataclass(frozen=True)
class Distance:
    """Between two tensors or arrays of one type and shape that are not the same."""

    elements: int
    of: int
    most: float

    @property
    def in_words(self) -> str:
        if not self.elements:
            return "equal numbers in other bits: the sign of a zero, or a NaN"
        return f"{self.elements:,} of {self.of:,} elements"


def distance(value: Any, other: Any) -> Distance | None:
    """None where they are equal, bit by bit."""
    left, right = _flat(value), _flat(other)
    if left.tobytes() == right.tobytes():
        return None
    left, right = _numbers(left, value.dtype), _numbers(right, value.dtype)
    differing = (left != right) & ~((left != left) & (right != right))
    count = int(differing.sum())
    return Distance(count, int(left.size), _most(left, right) if count else 0.0)


def numbers_apart(tensor: "torch.Tensor", other: "torch.Tensor") -> int:
    """How many of two tensors' numbers have other bits; on any device, and nothing is copied from
    it. NaN equals itself, and 0.0 is not -0.0."""
    differs = _rows(tensor) != _rows(other)
    return int(differs.any(dim=1).sum())


def _rows(tensor: "torch.Tensor") -> "torch.Tensor":
    """A row of bytes for each number."""
    import torch

    return tensor.contiguous().reshape(-1, 1).view(torch.uint8)


def kind_of(tensor: Any) -> str:
    """As in `float32[3, 4]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _of_leaves(value: Any, other: Any) -> str:
    import numpy
    import torch

    if isinstance(value, torch.Tensor | numpy.ndarray):
        return _of_tensors(value, other)
    # NaN equals itself here, and 0.0 is not -0.0: what counts is what would be loaded.
    return "" if _bits(value) == _bits(other) else _in_words(value, other)


def _bits(value: Any) -> Any:
    import numpy

    match value:
        case numpy.generic():
            return value.dtype.str, value.tobytes()
        case float():
            return struct.pack(">d", value)
        case complex():
            return struct.pack(">dd", value.real, value.imag)
    return value


def _of_tensors(value: Any, other: Any) -> str:
    if (value.dtype, value.shape) != (other.dtype, other.shape):
        return _in_words(value, other)
    found = distance(value, other)
    if found is None:
        return ""
    most = f" differ, by at most {found.most:.6g}" if found.elements else ""
    return found.in_words + most


def _flat(value: Any) -> "numpy.ndarray[Any, Any]":
    """A copy in order, a tensor as bytes: numpy has no name for half of torch's types."""
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        flat: numpy.ndarray[Any, Any] = value.contiguous().reshape(-1).view(torch.uint8).numpy()
        return flat
    return value.reshape(-1)  # type: ignore[no-any-return]


def _numbers(flat: "numpy.ndarray[Any, Any]", dtype: Any) -> "numpy.ndarray[Any, Any]":
    """Wider where numpy does not know the type, never where that would round."""
    import torch

    if not isinstance(dtype, torch.dtype):
        return flat
    tensor = torch.from_numpy(flat).view(dtype)
    try:
        return tensor.numpy()
    except TypeError:
        wide = torch.complex64 if dtype.is_complex else torch.float32
    try:
        return tensor.to(wide).numpy()
    except RuntimeError:  # pairs of 4-bit floats, and other types that nothing can be done with
        return flat


def _most(left: "numpy.ndarray[Any, Any]", right: "numpy.ndarray[Any, Any]") -> float:
    """The largest distance; infinite where one is NaN or infinite and the other is not."""
    import numpy

    if left.dtype.kind in "biu":
        # In 64 bits that wrap around: as floats, neighbours among large ints would look equal.
        largest, smallest = numpy.maximum(left, right), numpy.minimum(left, right)
        return float((largest.astype(numpy.uint64) - smallest.astype(numpy.uint64)).max())
    wide = numpy.complex128 if left.dtype.kind == "c" else numpy.float64
    apart = left != right
    with numpy.errstate(invalid="ignore", over="ignore"):
        distance = numpy.abs(left[apart].astype(wide) - right[apart].astype(wide))
    both_nan = (left != left)[apart] & (right != right)[apart]
    return float(numpy.nan_to_num(distance[~both_nan], nan=numpy.inf, posinf=numpy.inf).max())


def _in_words(value: Any, other: Any) -> str:
    return f"{_word(value)} against {_word(other)}"


def _word(value: Any) -> str:
    import numpy
    import torch

    if value is MISSING:
        return "nothing"
    if isinstance(value, torch.Tensor | numpy.ndarray):
        return kind_of(value)
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an int of {value.bit_length():,} bits"  # which Python may refuse to print
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
