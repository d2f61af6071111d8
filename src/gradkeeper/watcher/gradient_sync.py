"""Whether a backward exchanged gradients between ranks.

DistributedDataParallel decides at its forward, by a flag that `no_sync()` clears; FSDP2 by flags of
its parameter groups. Under `set_requires_gradient_sync(False)` a backward leaves the gradient of
FSDP2's shard as it is: its share waits beside the unsharded parameter. There is no public way to
see that, nor which tensors are the unsharded ones, so private attributes of torch (2.13) are read
in this file, and here only.
"""

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

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
        return None if group is None else bool(group.reduce_grads)

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
        # In another type than the parameter's, where gradients are reduced in one.
        apart: torch.Tensor | None = held.unsharded_accumulated_grad
        whole = getattr(held, "_unsharded_param", None)
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
            for group, held in _held_by_fsdp():
                self._known.setdefault(held.sharded_param, FsdpShard(held, group))
            # A DTensor of somebody else's is not looked for again.
            self._known.setdefault(parameter, None)
        found: FsdpShard | None = self._known[parameter]
        return found


def unsharded_by_fsdp() -> set[int]:
    """Addresses of the parameters that FSDP2 puts in place of its shards while a module runs.

    Their storage comes and goes, and their gradients go to the shards: they are nobody's account.
    """
    return {id(getattr(held, "_unsharded_param", None)) for _, held in _held_by_fsdp()}


def _held_by_fsdp() -> Iterator[tuple[Any, Any]]:
    """All groups of parameters, each with each of its parameters."""
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None or not hasattr(fsdp, "FSDPModule"):
        return
    for module in gc.get_objects():
        if issubclass(type(module), fsdp.FSDPModule):
            for group in _groups(module._get_fsdp_state()):
                for held in group.fsdp_params:
                    yield group, held


def _groups(state: Any) -> list[Any]:
    several: list[Any] | None = getattr(state, "_fsdp_param_groups", None)
    if several is not None:
        return several
    # Before torch 2.12 there was one at most.
    one = state._fsdp_param_group
    return [] if one is None else [one]


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
