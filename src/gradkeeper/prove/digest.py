"""Digests of tensors, batches and random generators, at a bounded cost.

Of more than BUDGET elements a sample is taken: enough to recognise a state among those of a run.
What the verdict stands on is compared whole, elsewhere.
"""

import ctypes
import hashlib
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

BUDGET = 2**18


def of_tensors(tensors: Iterable[torch.Tensor | None], *, budget: int | None = BUDGET) -> str:
    several = [one if one is None else local(one) for one in tensors]
    count = sum(one.numel() for one in several if one is not None)
    stride = 1 if budget is None else max(1, count // budget)
    hashed = hashlib.blake2b(digest_size=8)
    for one in several:
        if one is None:
            hashed.update(b"none")
            continue
        hashed.update(f"{one.dtype}{tuple(one.shape)}".encode())
        hashed.update(_memory(one.reshape(-1)[::stride]))
    return hashed.hexdigest()


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds of it, dense."""
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor


def _memory(flat: torch.Tensor) -> bytes:
    flat = flat.contiguous().cpu()
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())


def of_batch(batch: Any) -> str | None:
    """None where nothing in it is a tensor, a number or text."""
    tensors: list[torch.Tensor] = []
    words: list[str] = []
    _collect(batch, tensors, words)
    if not tensors and not words:
        return None
    text = hashlib.blake2b("\n".join(words).encode(), digest_size=4).hexdigest()
    return of_tensors(tensors) + text


def _collect(value: Any, tensors: list[torch.Tensor], words: list[str]) -> None:
    match value:
        case torch.Tensor():
            tensors.append(value)
        case str() | bytes() | int() | float():
            words.append(repr(value))
        case Mapping():
            for one in value.values():
                _collect(one, tensors, words)
        case Sequence():
            for one in value:
                _collect(one, tensors, words)


def of_generators() -> dict[str, str]:
    """The default ones, by library."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states += torch.cuda.get_rng_state_all()
    found = {"torch": of_tensors(states), "Python": _of_text(repr(random.getstate()))}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _, keys, place, *rest = numpy.random.get_state()
        found["NumPy"] = _of_text(f"{keys.tobytes().hex()}{place}{rest}")
    return found


def _of_text(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
