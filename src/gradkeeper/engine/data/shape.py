"""What must be the same when a run goes on: as plain values, and the difference in words."""

from collections.abc import Iterable
from typing import Any

from torch.utils.data import DataLoader

Shape = dict[str, Any]
PER_RANK = ("length", "num_replicas", "rank")


def length_of(loader: Iterable[Any]) -> int | None:
    """Batches in an epoch, where the loader says so."""
    try:
        return len(loader)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None


def shape_of(loader: Iterable[Any]) -> Shape:
    if isinstance(loader, DataLoader):
        return shape_of_loader(loader)
    return {"loader": _name(loader), "length": length_of(loader)}


def shape_of_loader(loader: DataLoader[Any]) -> Shape:
    index = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    inner = getattr(index, "sampler", index)
    shape = {
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
        shape["prefetch_factor"] = loader.prefetch_factor
        shape["persistent_workers"] = loader.persistent_workers
    for name in ("num_replicas", "rank"):
        if hasattr(inner, name):
            shape[name] = getattr(inner, name)
    return shape


def of_any_rank(shape: Shape) -> Shape:
    """Without what depends on how many ranks share the data."""
    return {name: one for name, one in shape.items() if name not in PER_RANK}


def difference(saved: Shape, now: Shape) -> str:
    """Empty where there is none."""
    names = [*saved, *(name for name in now if name not in saved)]
    return "; ".join(
        f"{name} was {_shown(saved, name)}, is {_shown(now, name)}"
        for name in names
        if saved.get(name, _ABSENT) != now.get(name, _ABSENT)
    )


_ABSENT = object()


def _shown(shape: Shape, name: str) -> str:
    return repr(shape[name]) if name in shape else "not there"


def _name(thing: Any) -> str:
    return type(thing).__qualname__
