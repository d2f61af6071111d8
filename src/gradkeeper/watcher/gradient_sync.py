"""Whether a backward exchanged gradients between ranks.

DistributedDataParallel decides at its forward, by a flag that `no_sync()` clears, and exchanges the
backward that comes next; FSDP2 decides by flags of its parameter groups. Under
`set_requires_gradient_sync(False)` a backward leaves the gradient of FSDP2's shard as it is: its
share waits beside the unsharded parameter. There is no public way to see that, nor which tensors
are the unsharded ones (torch_private.py).
"""

import weakref
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from gradkeeper import torch_private
from gradkeeper.torch_private import is_sharded
from gradkeeper.watcher.gradients import Cohort, Mark, gradient_of


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
        apart, whole = torch_private.pending_apart(held), torch_private.unsharded_parameter(held)
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
                self._known.setdefault(
                    torch_private.sharded_parameter(held), FsdpShard(held, group)
                )
            # A DTensor of somebody else's is not looked for again.
            self._known.setdefault(parameter, None)
        found: FsdpShard | None = self._known[parameter]
        return found


def unsharded_by_fsdp() -> set[int]:
    """Addresses of the parameters that FSDP2 puts in place of its shards while a module runs.

    Their storage comes and goes, and their gradients go to the shards: they are nobody's account.
    """
    held_by_fsdp = torch_private.parameters_of_all_fsdp_modules()
    return {id(torch_private.unsharded_parameter(held)) for _, held in held_by_fsdp}


REBUILT_WITHIN = 4
"""Forwards; torch 2.13 rebuilds at the second one."""


class WatchedDDP:
    """A DistributedDataParallel module: what its last forward has decided, and what came of it.

    It exchanges the first backward of a forward only. A backward without a forward of its own, as
    of the module that it wraps, exchanges nothing, and nobody has said so.
    """

    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        # Asked for now: when the watch ends, there may be no groups any more.
        self._ranks = tuple(torch.distributed.get_process_group_ranks(module.process_group))
        self.decided: bool | None = None
        """By the last forward: whether its backward is exchanged; None if that has come."""
        self.exchanged = self.withheld = False
        """Since the last step: some backward was exchanged, some was not, on purpose."""
        self.local = False
        """The ranks mean to part: a whole window was kept from the others on purpose."""

    def backward(self) -> bool | None:
        decided = self.decided
        if decided:
            self.decided = None
            self.exchanged = True
        elif decided is False:
            self.withheld = True
        return decided

    def stepped(self) -> None:
        self.local = self.local or (self.withheld and not self.exchanged)
        self.exchanged = self.withheld = False

    def replicas(self) -> tuple[int, ...]:
        """The ranks that should hold the same weights."""
        module: Any = self.module()
        if module is None or self.local or torch_private.averages_later(module):
            return ()
        return self._ranks


class GradientSync:
    def __init__(self) -> None:
        self._wrappers: dict[int, WatchedDDP] = {}
        self._of: dict[int, WatchedDDP] = {}
        """By parameter."""
        self.several = False
        """Somebody exchanges gradients: an attribute, for it is asked for all the time."""
        self._forwards = 0
        self._shards = FsdpShards()

    def shard(self, mark: Mark) -> FsdpShard | None:
        found = self._shards.of(mark)
        if found is not None:
            self.several = True
        return found

    def wrapped(self, module: Any) -> WatchedDDP:
        """A module is wrapped, or was before the watch began."""
        self.several = True
        known = self._wrappers.get(id(module))
        if known is None or known.module() is not module:
            known = self._wrappers[id(module)] = WatchedDDP(module)
            for parameter in module.module.parameters():
                self._of[id(parameter)] = known
        return known

    def forward(self, module: Any) -> bool:
        """A DistributedDataParallel module runs forward. True if it may still rebuild its buckets,
        and with them the gradients that are views of them."""
        wrapper = self.wrapped(module)
        if torch.is_grad_enabled():
            wrapper.decided = bool(module.require_backward_grad_sync)
        self._forwards += 1
        return self._forwards <= REBUILT_WITHIN

    def synced(self, cohorts: list[Cohort]) -> bool | None:
        """Of a backward that is over. None where there is one rank only, nobody exchanges, or
        nobody has decided."""
        wrappers: dict[WatchedDDP, bool | None] = {}
        for cohort in cohorts:
            for mark in cohort.marks[:1]:
                wrapper = self._of.get(id(mark.parameter()))
                if wrapper is not None:
                    if wrapper not in wrappers:
                        wrappers[wrapper] = wrapper.backward()
                    continue
                shard = self._shards.of(mark)
                if shard is not None and not wrappers:
                    return shard.is_synced()
        return next((synced for synced in wrappers.values() if synced is not None), None)

    def exchanged(self, cohort: Cohort) -> None:
        """What waits there was brought to the other ranks by the program itself."""
        cohort.unsynced = cohort.summed_aside = False
        for mark in cohort.marks:
            wrapper = self._of.get(id(mark.parameter()))
            if wrapper is not None:
                wrapper.exchanged = True

    def wrappers(self, parameters: list[torch.Tensor]) -> list[WatchedDDP]:
        found = (self._of.get(id(parameter)) for parameter in parameters)
        return list(dict.fromkeys(wrapper for wrapper in found if wrapper is not None))

    def replicas(self, parameter: torch.Tensor) -> tuple[int, ...]:
        """The ranks that should hold what this one does of a parameter; none where there are no
        others."""
        wrapper = self._of.get(id(parameter))
        ranks = wrapper.replicas() if wrapper is not None else ()
        if wrapper is None and is_sharded(parameter):
            ranks = torch_private.ranks_with_the_same_shard(parameter)
        return ranks if len(ranks) > 1 else ()
