"""Weights that ranks should hold alike: what this rank's come to, after steps that are looked at.

They are compared with the other ranks' when all have ended (ranks.py).
"""

import weakref
from typing import Any, NamedTuple

import torch

from gradkeeper.model import Site
from gradkeeper.replicas import Sums, is_due, rounding_of, sums_of
from gradkeeper.watcher.gradient_sync import GradientSync, WatchedDDP
from gradkeeper.watcher.names import ModuleMap
from gradkeeper.watcher.optimizers import parameters_of


class Sample(NamedTuple):
    """After one step, of each parameter that others should hold alike."""

    step: int
    site: Site
    ranks: list[tuple[int, ...]]
    """Those others, and this one."""
    sums: list[Sums]


class Replica:
    """One optimizer's parameters."""

    def __init__(self) -> None:
        self.steps = 0
        self.names: list[str] = []
        self.rounding: list[float] = []
        self.samples: list[Sample] = []
        self.wrappers: list[WatchedDDP] = []
        self.last: Site | None = None
        """The last step."""
        self.first: weakref.ref[torch.Tensor] | None = None
        self.version = 0
        """The first parameter, and its version after that step."""


class ReplicaHistory:
    def __init__(self, sync: GradientSync, modules: ModuleMap) -> None:
        self._sync = sync
        self._modules = modules
        self.held: dict[str, Replica] = {}
        """By optimizer."""

    def stepped(self, name: str, optimizer: torch.optim.Optimizer, site: Site) -> None:
        """An optimizer has taken a step."""
        if not self._sync.several:
            return
        replica = self.held.setdefault(name, Replica())
        replica.steps += 1
        replica.last = site
        if is_due(replica.steps):
            parameters = _trained(optimizer)
            replica.wrappers = self._sync.wrappers(parameters)
            replica.first = weakref.ref(parameters[0]) if parameters else None
        for wrapper in replica.wrappers:
            wrapper.stepped()
        if is_due(replica.steps):
            ranks = [self._sync.replicas(parameter) for parameter in parameters]
            self._look(replica, parameters, site, ranks)
        first = replica.first() if replica.first is not None else None
        replica.version = -1 if first is None else first._version

    def end(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        """After the last step: unless the weights were changed since, as by loading the best."""
        replica = self.held.get(name)
        if replica is None or replica.last is None or replica.first is None:
            return
        first = replica.first()
        if first is None or first._version != replica.version or not replica.samples:
            return
        before = replica.samples[-1]
        apart = any(wrapper.local for wrapper in replica.wrappers)
        if before.step < replica.steps and not apart:
            # The groups of ranks may be gone by now.
            self._look(replica, _trained(optimizer), replica.last, before.ranks)

    def _look(
        self,
        replica: Replica,
        parameters: list[torch.Tensor],
        site: Site,
        ranks: list[tuple[int, ...]],
    ) -> None:
        if not any(ranks) or len(ranks) != len(parameters):
            return
        names = [
            self._modules.path(parameter) or f"tensor{tuple(parameter.shape)}"
            for parameter in parameters
        ]
        if names != replica.names:
            # Others than before: what was seen of those cannot be compared with these.
            replica.samples.clear()
            replica.names, replica.rounding = (
                names,
                [rounding_of(parameter) for parameter in parameters],
            )
        replica.samples.append(Sample(replica.steps, site, ranks, sums_of(parameters)))

    def told(self) -> dict[str, Any]:
        """For the other ranks, as plain values."""
        return {
            name: {"names": history.names, "rounding": history.rounding, "samples": history.samples}
            for name, history in self.held.items()
            if history.samples
        }


def _trained(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [
        parameter
        for parameter in parameters_of(optimizer)
        if parameter.requires_grad and parameter.layout is torch.strided
    ]
