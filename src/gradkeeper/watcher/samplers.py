"""Samplers that share data out among ranks: by which seed one shuffles an epoch."""

from typing import Any

from torch.utils.data import BatchSampler, DistributedSampler


class Seeds:
    """Tells the seeds of each loader's epochs, until one differs: somebody counts the epochs."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._counted: set[str] = set()

    def of(self, source: str, iterator: object) -> int | None:
        """That of the epoch which begins with this iterator; None where there is none to tell."""
        if source in self._counted:
            return None
        seed = seed_of(iterator)
        if seed is None:
            return None
        if self._last.setdefault(source, seed) != seed:
            self._counted.add(source)
        return seed


def seed_of(iterator: object) -> int | None:
    """By which a DistributedSampler orders the data; None where something else may order it."""
    sampler: Any = getattr(iterator, "_index_sampler", None)
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    if not isinstance(sampler, DistributedSampler) or not sampler.shuffle:
        return None
    if type(sampler).__iter__ is not DistributedSampler.__iter__:
        return None
    if hasattr(sampler.dataset, "set_epoch"):
        return None
    return int(sampler.seed) + int(sampler.epoch)
