"""Whether a backward exchanged gradients between ranks.

DistributedDataParallel decides at its forward, by a flag that `no_sync()` clears; FSDP2 by flags
of its parameter groups, which are private and are read here only.
"""

import gc
import sys
from typing import Any

import torch

from gradkeeper.watcher.cohorts import Cohort

REBUILT_WITHIN = 4
"""Forwards; torch 2.13 rebuilds at the second one."""


class Ranks:
    def __init__(self) -> None:
        self._wrapped: dict[int, bool] = {}
        self.several = False
        self._forwards = 0

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
        return None


def unsharded_by_fsdp() -> set[int]:
    """Addresses of the parameters that FSDP2 puts in place of its shards while a module runs.

    Their storage comes and goes, and their gradients go to the shards: they are nobody's account,
    and reading them crashes. Private attributes, for there is no public way to tell them.
    """
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None or not hasattr(fsdp, "FSDPModule"):
        return set()
    found: set[int] = set()
    for module in gc.get_objects():
        if not issubclass(type(module), fsdp.FSDPModule):
            continue
        group = module._get_fsdp_state()._fsdp_param_group
        for one in group.fsdp_params if group is not None else ():
            found.add(id(getattr(one, "_unsharded_param", None)))
    return found
