"""A short hash of plain values, the same in every process; and one of what a batch holds, by which
batches that are read again can be told from other ones.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import torch

BYTES = 8


class Fingerprint:
    """Of values that come one by one, each of them spelled."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=BYTES)

    def add(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "surrogatepass"))
        self._hash.update(b";")

    def __str__(self) -> str:
        return self._hash.hexdigest()


def fingerprint_of(value: Any) -> str:
    digest = Fingerprint()
    digest.add(spelled(value))
    return str(digest)


def spelled(value: Any) -> str:
    """No address of an object is in it: of what is not plain, only the type."""
    match value:
        case int() | float() | str() | bytes() | None:
            return repr(value)
        case list() | tuple():
            if set(map(type, value)) == {int}:
                return repr(list(value))  # a batch's indices, ten times as fast
            return f"[{','.join(map(spelled, value))}]"
        case dict():
            pairs = (f"{spelled(key)}:{spelled(item)}" for key, item in value.items())
            return f"{{{','.join(pairs)}}}"
        case _ if hasattr(value, "tolist"):
            return repr(value.tolist())
    return type(value).__qualname__


# Of a batch. Of a large tensor some numbers stand for all: it is read at every step of a training.


ENOUGH = 256
"""Numbers of a tensor. Another item in its place differs in nearly all of them."""


def content_of(batch: Any, *, whole: bool = False) -> str:
    """`whole`: every number counts."""
    digest = Fingerprint()
    _add(digest, batch, None if whole else ENOUGH)
    return str(digest)


def _add(digest: Fingerprint, value: Any, most: int | None) -> None:
    match value:
        case torch.Tensor():
            _add_tensor(digest, value, most)
        case None | bool() | int() | float() | complex() | str() | bytes():
            digest.add(f"{type(value).__name__}:{value!r}")
        case Mapping():
            digest.add(f"mapping of {len(value)}")
            for key in value:
                _add(digest, key, most)
                _add(digest, value[key], most)
        case list() | tuple():
            digest.add(f"{len(value)} of")
            for part in value:
                _add(digest, part, most)
        case _ if hasattr(value, "tobytes") and hasattr(value, "dtype"):
            _add_array(digest, value, most)
        case _:
            # It may spell its address, which is another in each process.
            digest.add(type(value).__qualname__)


def _add_tensor(digest: Fingerprint, tensor: torch.Tensor, most: int | None) -> None:
    digest.add(f"{tensor.dtype}{tuple(tensor.shape)}")
    if tensor.layout is not torch.strided or tensor.is_nested:
        return
    if tensor.device.type != "cpu" and most is not None:
        return  # to read it would wait for the device
    numbers = _some(tensor.detach().reshape(-1), most)
    digest.add(numbers.cpu().contiguous().view(torch.uint8).numpy().tobytes().hex())


def _add_array(digest: Fingerprint, array: Any, most: int | None) -> None:
    digest.add(f"{array.dtype}{array.shape}")
    if array.dtype.hasobject:
        _add(digest, array.tolist(), most)
    else:
        digest.add(_some(array.reshape(-1), most).tobytes().hex())


def _some(numbers: Any, most: int | None) -> Any:
    count = len(numbers)
    if most is None or count <= most:
        return numbers
    return numbers[:: -(-count // most)]
