"""The number by which a DistributedSampler shuffles. A loop over several epochs counts it up: left
alone, each epoch would have the first one's order. Where it starts is the user's choice."""

from collections.abc import Iterator
from typing import Any

from gradkeeper.engine.data.samplers import chain, index_sampler


def next_epoch(loader: Any) -> None:
    set_numbers(loader, [number + 1 for number in numbers(loader)])


def numbers(loader: Any) -> list[int]:
    return [sampler.epoch for sampler in _numbered(loader)]


def set_numbers(loader: Any, values: list[int]) -> None:
    for sampler, value in zip(_numbered(loader), values, strict=True):
        if sampler.epoch != value:
            sampler.set_epoch(value)


def _numbered(loader: Any) -> Iterator[Any]:
    for sampler in chain(index_sampler(loader)).values():
        if callable(getattr(sampler, "set_epoch", None)):
            if type(getattr(sampler, "epoch", None)) is int:
                yield sampler
