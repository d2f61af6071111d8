"""What must be the same when a run goes on: a loader's plain values; and how two of them differ."""

from collections.abc import Iterable
from typing import Any

from torch.utils.data import DataLoader

LoaderSignature = dict[str, Any]
PER_RANK = ("length", "num_replicas", "rank")


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
