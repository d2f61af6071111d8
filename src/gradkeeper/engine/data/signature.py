"""What must be the same when a run goes on: a loader's plain values, and the difference in words; a
short hash of plain values, the same in every process; and one of what a batch holds, by which
batches that are read again can be told from other ones.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import torch
from torch.utils.data import DataLoader

LoaderSignature = dict[str, Any]
PER_RANK = ("length", "num_replicas", "rank")
BYTES = 8


def length_of(loader: Iterable[Any]) -> int | None:
    """Batches in an epoch, where the loader says so."""
    try:
        return len(loader)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None


def signature_of(loader: Iterable[Any]) -> LoaderSignature:
    if isinstance(loader, DataLoader):
        return signature_of_loader(loader)
    return {"loader": _name(loader), "length": length_of(loader)}


def signature_of_loader(loader: DataLoader[Any]) -> LoaderSignature:
    index = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    inner = getattr(index, "sampler", index)
    signature = {
        "loader": _name(loader),
        "length": length_of(loader),
        "batch_size": loader.batch_size or getattr(index, "batch_size", None),
        "drop_last": bool(loader.drop_last or getattr(index, "drop_last", False)),
        "dataset": _name(loader.dataset),
        "dataset_length": length_of(loader.dataset),  # type: ignore[arg-type]
        "sampler": _name(inner),
        "num_workers": loader.num_workers,
    }
    if loader.num_workers:
        signature["prefetch_factor"] = loader.prefetch_factor
        signature["persistent_workers"] = loader.persistent_workers
    for name in ("num_replicas", "rank"):
        if hasattr(inner, name):
            signature[name] = getattr(inner, name)
    return signature


def of_any_rank(signature: LoaderSignature) -> LoaderSignature:
    """Without what depends on how many ranks share the data."""
    return {name: value for name, value in signature.items() if name not in PER_RANK}


def difference(saved: LoaderSignature, now: LoaderSignature) -> str:
    """Empty where there is none."""
    names = [*saved, *(name for name in now if name not in saved)]
    return "; ".join(
        f"{name} was {_shown(saved, name)}, is {_shown(now, name)}"
        for name in names
        if saved.get(name, _ABSENT) != now.get(name, _ABSENT)
    )


_ABSENT = object()


def _shown(signature: LoaderSignature, name: str) -> str:
    return repr(signature[name]) if name in signature else "not there"


def _name(thing: Any) -> str:
    return type(thing).__qualname__


# As a short hash.


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
