"""A loader's samplers: what they hold at the begin of an epoch, and the number that shuffles."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from gradkeeper.engine.errors import PositionError

SCALARS = (int, float, bool, str)
# The process's generators give these a seed or an order at the first index, and nothing after it.
DRAW_AT_FIRST = (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    list,
    range,
    tuple,
)
SHARE = ("rank", "num_replicas", "num_samples", "total_size")
"""Of a DistributedSampler, and of those who follow its names."""
SamplerState = dict[str, Any]


class Samplers:
    """The index sampler, and those it draws from.

    A sampler with `state_dict()` says what it holds. Of others the numbers are taken (`epoch` of a
    DistributedSampler), and lists and tensors that have changed since (an order shuffled in place).
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.index = index_sampler(loader)
        self._chain = chain(self.index)
        self.draw_at_first = all(type(sampler) in DRAW_AT_FIRST for sampler in self._chain.values())
        self._first = {name: _sequences(sampler) for name, sampler in self._chain.items()}

    def read(self) -> SamplerState:
        return {name: self._read(name, sampler) for name, sampler in self._chain.items()}

    def _read(self, name: str, sampler: Any) -> SamplerState:
        if is_stateful(sampler):
            return {"state": copy.deepcopy(sampler.state_dict())}
        held = {attribute: value for attribute, value in _own(sampler) if type(value) in SCALARS}
        first = self._first[name]
        moved = {
            attribute: value
            for attribute, value in _sequences(sampler).items()
            if not _same(value, first.get(attribute))
        }
        return {"attributes": held | moved}

    def write(self, held: SamplerState) -> None:
        for name, parts in held.items():
            sampler = self._chain[name]
            if "state" in parts:
                sampler.load_state_dict(copy.deepcopy(parts["state"]))
                continue
            for attribute, value in parts["attributes"].items():
                if not _same(getattr(sampler, attribute, None), value):
                    _set(sampler, attribute, value)

    def of_any_rank(self, held: SamplerState) -> SamplerState:
        """Without what a sampler holds about its own share."""
        if any("state" in parts for parts in held.values()):
            raise PositionError(
                "a sampler with state_dict() keeps its own place, which is that of one rank among "
                "another number of them: go on with as many ranks as there were"
            )
        return {
            name: {"attributes": {k: v for k, v in parts["attributes"].items() if k not in SHARE}}
            for name, parts in held.items()
        }


def is_stateful(thing: Any) -> bool:
    return all(callable(getattr(thing, name, None)) for name in ("state_dict", "load_state_dict"))


def index_sampler(loader: Any) -> Any:
    """What a loader draws its indices from, where it has samplers."""
    batches = getattr(loader, "batch_sampler", None)
    return batches if batches is not None else getattr(loader, "sampler", None)


def chain(sampler: Any) -> dict[str, Any]:
    """A sampler and those it draws from, by name."""
    found: dict[str, Any] = {}
    name = "sampler"
    while sampler is not None and all(sampler is not known for known in found.values()):
        found[name] = sampler
        sampler, name = getattr(sampler, "sampler", None), f"{name}.sampler"
    return found


def _own(sampler: Any) -> list[tuple[str, Any]]:
    return list(getattr(sampler, "__dict__", {}).items())


def _sequences(sampler: Any) -> SamplerState:
    found: SamplerState = {}
    for attribute, value in _own(sampler):
        if isinstance(value, torch.Tensor):
            found[attribute] = value.clone()
        elif type(value) is list and all(type(item) in SCALARS for item in value):
            found[attribute] = list(value)
        elif type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            found[attribute] = value.copy()
    return found


def _same(value: Any, other: Any) -> bool:
    if type(value) is not type(other):
        return False
    if isinstance(value, torch.Tensor):
        return torch.equal(value, other)
    if hasattr(value, "tobytes"):
        return bool(value.dtype == other.dtype and value.tobytes() == other.tobytes())
    return bool(value == other)


def _set(sampler: Any, attribute: str, value: Any) -> None:
    if attribute == "epoch" and callable(getattr(sampler, "set_epoch", None)):
        # It may pass the number on to others.
        sampler.set_epoch(value)
    elif type(value) is list and isinstance(getattr(sampler, attribute, None), list):
        # In place: others may hold the same list.
        getattr(sampler, attribute)[:] = value
    else:
        setattr(sampler, attribute, copy.deepcopy(value))


# The number by which a DistributedSampler shuffles. A loop over several epochs counts it up: left
# alone, each epoch would have the first one's order. Where it starts is the user's choice.
#
# A dataset may have such a number too (a stream of Hugging Face's). There it is the user who counts
# it up: it reorders even a stream that was never to be shuffled. It is kept all the same.


def next_epoch(loader: Any) -> None:
    for sampler in chain(index_sampler(loader)).values():
        if _is_numbered(sampler):
            sampler.set_epoch(sampler.epoch + 1)


def numbers(loader: Any) -> list[int]:
    return [thing.epoch for thing in _numbered(loader)]


def set_numbers(loader: Any, values: list[int]) -> None:
    for thing, value in zip(_numbered(loader), values, strict=True):
        if thing.epoch != value:
            thing.set_epoch(value)


def _numbered(loader: Any) -> Iterator[Any]:
    samplers = chain(index_sampler(loader)).values()
    for thing in (*samplers, getattr(loader, "dataset", None), loader):
        if _is_numbered(thing):
            yield thing


def _is_numbered(thing: Any) -> bool:
    has_method = callable(getattr(thing, "set_epoch", None))
    return has_method and type(getattr(thing, "epoch", None)) is int
