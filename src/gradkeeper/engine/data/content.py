"""What a batch holds, as a short hash: batches that are read again can be told from other ones.

Of a large tensor some numbers stand for all: it is read at every step of a training.
"""

from collections.abc import Mapping
from typing import Any

import torch

from gradkeeper.engine.data.signature import Fingerprint

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
