"""Whether a backward exchanged gradients between ranks.

DistributedDataParallel decides at its forward, by a flag that `no_sync()` clears; FSDP2 by flags of
its parameter groups. Under `set_requires_gradient_sync(False)` a backward leaves the gradient of
FSDP2's shard as it is: its share waits beside the unsharded parameter. There is no public way to
see that, nor which tensors are the unsharded ones (torch_private.py).
"""

import weakref
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from gradkeeper import torch_private
from gradkeeper.watcher.gradients import Cohort, Mark, gradient_of, is_sharded


class FsdpShard:
    """What one rank holds of a parameter, and what waits to be exchanged for it."""

    def __init__(self, held: Any, group: Any) -> None:
        self._held = weakref.ref(held)
        self._group = weakref.ref(group)
        self._seen: weakref.ref[torch.Tensor] | None = None
        self._version = 0

    def is_synced(self) -> bool | None:
        group = self._group()
        return None if group is None else torch_private.reduces(group)

    def is_credited(self) -> bool:
        """Whether a backward has added to what waits since it was last noted."""
        waits = self._waits()
        if waits is None:
            return False
        if self._seen is None or self._seen() is not waits:
            return True
        return bool(waits._version != self._version)

    def note(self) -> None:
        waits = self._waits()
        self._seen = None if waits is None else weakref.ref(waits)
        self._version = 0 if waits is None else waits._version

    def _waits(self) -> torch.Tensor | None:
        held: Any = self._held()
        if held is None:
            return None
        apart, whole = torch_private.pending_apart(held), torch_private.unsharded(held)
        if apart is not None or whole is None:
            return apart
        return gradient_of(whole)


class FsdpShards:
    """Finds the shard of a parameter."""

    def __init__(self) -> None:
        self._known: Any = WeakIdKeyDictionary()

    def of(self, mark: Mark) -> FsdpShard | None:
        """None for whatever FSDP2 does not hold."""
        parameter = mark.parameter()
        if parameter is None or not is_sharded(parameter):
            return None
        if parameter not in self._known:
            for group, held in torch_private.parameters_of_all_fsdp_modules():
                self._known.setdefault(torch_private.sharded(held), FsdpShard(held, group))
            # A DTensor of somebody else's is not looked for again.
            self._known.setdefault(parameter, None)
        found: FsdpShard | None = self._known[parameter]
        return found


def unsharded_by_fsdp() -> set[int]:
    """Addresses of the parameters that FSDP2 puts in place of its shards while a module runs.

    Their storage comes and goes, and their gradients go to the shards: they are nobody's account.
    """
    held_by_fsdp = torch_private.parameters_of_all_fsdp_modules()
    return {id(torch_private.unsharded(held)) for _, held in held_by_fsdp}


REBUILT_WITHIN = 4
"""Forwards; torch 2.13 rebuilds at the second one."""


class GradientSync:
    def __init__(self) -> None:
        self._wrapped: dict[int, bool] = {}
        self.several = False
        """Somebody exchanges gradients: an attribute, for it is asked for all the time."""
        self._forwards = 0
        self._shards = FsdpShards()

    def shard(self, mark: Mark) -> FsdpShard | None:
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
