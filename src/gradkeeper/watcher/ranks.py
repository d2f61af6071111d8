"""Whether a backward exchanged gradients between ranks.

DistributedDataParallel decides at its forward, by a flag that `no_sync()` clears; FSDP2 by flags
of its parameter groups (shards.py).
"""

from typing import Any

import torch

from gradkeeper.watcher.cohorts import Cohort
from gradkeeper.watcher.marks import Mark
from gradkeeper.watcher.shards import Shard, Shards

REBUILT_WITHIN = 4
"""Forwards; torch 2.13 rebuilds at the second one."""


class Ranks:
    def __init__(self) -> None:
        self._wrapped: dict[int, bool] = {}
        self.several = False
        """Somebody exchanges gradients: an attribute, for it is asked for all the time."""
        self._forwards = 0
        self._shards = Shards()

    def shard(self, mark: Mark) -> Shard | None:
        found = self._shards.of(mark)
        if found is not None:
            self.several = True
        return found

    def forward(self, wrapper: Any) -> bool:
        """A DistributedDataParallel module runs forward. True if it may still rebuild its buckets,
        and with them the gradients that are views of them."""
        self.several = True
        synced = bool(wrapper.require_backward_grad_sync)
        for parameter in wrapper.module.parameters():
            self._wrapped[id(parameter)] = synced
        self._forwards += 1
        return self._forwards <= REBUILT_WITHIN

    def synced(self, cohorts: list[Cohort]) -> bool | None:
        """None where there is one rank only, or nobody exchanges."""
        for cohort in cohorts:
            for mark in cohort.marks[:1]:
                parameter: torch.Tensor | None = mark.parameter()
                if parameter is not None and id(parameter) in self._wrapped:
                    return self._wrapped[id(parameter)]
                shard = self._shards.of(mark)
                if shard is not None:
                    return shard.is_synced()
        return None
