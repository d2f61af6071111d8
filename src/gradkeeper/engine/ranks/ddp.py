"""DistributedDataParallel: which backward exchanges gradients, and that all take their turns."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.engine.ranks.base import Exchange, Sync, check_world
from gradkeeper.torch_private import (
    exchange_as_a_forward_does,
    flattened,
    forward_and_backward_of_nothing,
    unflattened,
)

# Gradients of replicas averaged at a window's end, where no synchronised backward did it.


NONE, DENSE, SPARSE = range(3)
BUCKET = 25 * 2**20
"""Bytes: DDP's default. All gradients in one buffer would double their memory."""


def average(parameters: list[Tensor], group: Any) -> None:
    """A gradient that some rank has becomes every rank's; what nobody has stays None."""
    _fill_in(parameters, group)
    ranks = dist.get_world_size(group)
    held = [parameter for parameter in parameters if parameter.grad is not None]
    dense = [p.grad for p in held if p.grad is not None and not p.grad.is_sparse]
    for bucket in _buckets(dense):
        flat = flattened(bucket).div_(ranks)
        dist.all_reduce(flat, group=group)
        for gradient, value in zip(bucket, unflattened(flat, bucket), strict=True):
            gradient.copy_(value)
    for parameter in held:
        if parameter.grad is not None and parameter.grad.is_sparse:
            whole = parameter.grad.div(ranks).coalesce()
            dist.all_reduce(whole, group=group)
            parameter.grad = whole


def _fill_in(parameters: list[Tensor], group: Any) -> None:
    """Zeros for gradients that only other ranks have."""
    here = [_kind(parameter.grad) for parameter in parameters]
    anywhere = torch.tensor(here, dtype=torch.uint8, device=parameters[0].device)
    dist.all_reduce(anywhere, op=dist.ReduceOp.MAX, group=group)
    for parameter, kind in zip(parameters, anywhere.tolist(), strict=True):
        if kind and parameter.grad is None:
            dense = kind == DENSE
            parameter.grad = torch.zeros_like(parameter) if dense else _no_rows(parameter)


def _kind(gradient: Tensor | None) -> int:
    if gradient is None:
        return NONE
    return SPARSE if gradient.is_sparse else DENSE


def _no_rows(table: Tensor) -> Tensor:
    """A sparse gradient without an entry: that of an embedding that was not looked up."""
    indices = torch.zeros(1, 0, dtype=torch.long, device=table.device)
    values = table.new_zeros(0, *table.shape[1:])
    return torch.sparse_coo_tensor(indices, values, table.shape, check_invariants=False)


def _buckets(gradients: list[Tensor]) -> Iterator[list[Tensor]]:
    """Of one dtype and device each, no larger than need be; in an order that all ranks share."""
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for gradient in gradients:
        kinds.setdefault((gradient.dtype, gradient.device), []).append(gradient)
    for alike in kinds.values():
        bucket: list[Tensor] = []
        size = 0
        for gradient in alike:
            bucket.append(gradient)
            size += gradient.numel() * gradient.element_size()
            if size >= BUCKET:
                yield bucket
                bucket, size = [], 0
        if bucket:
            yield bucket


# DDP decides at the forward whether the backward after it is all-reduced, and reduces the first
# backward of a forward only. A *turn* is one such backward. All ranks take the same number of turns
# in a window; one that cannot (an exception, a `break`, a loss left out) takes an empty one, so
# that the others do not wait for it.


class DDPExchange(Exchange):
    copies = 0

    def __init__(self, wrappers: list[DistributedDataParallel], *, every: bool) -> None:
        self._wrappers = wrappers
        self._group: Any = wrappers[0].process_group
        self._every = every
        self._alone = len(wrappers) == 1
        self._owed = 0
        self._due = False
        self._begun = False
        """A forward whose backward will be exchanged has begun, ..."""
        self._prepared = False
        """... and come to its end."""
        self._by_loader = False
        self._hooks: list[Any] = []

    # A window

    def settle(self) -> None:
        """Before a window: what DDP would exchange in its next forward (the order of buckets,
        buffers), while all ranks are here. One that runs no forward in the window, because it
        fails or leaves out a micro-batch, would be waited for."""
        for wrapper in self._wrappers:
            exchange_as_a_forward_does(wrapper)

    def open(self, planned: int | None, *, by_loader: bool) -> None:
        self.unsynced = self.exchanged = self.stuck = False
        self._due = self._begun = self._prepared = False
        self._by_loader = by_loader
        # Several wrappers may run in any order, and a rank cannot tell in which: at close, then.
        known = planned if self._alone and planned else 0
        self._owed = known if self._every else min(known, 1)
        self._set(self._every and self._alone and not by_loader)
        if self._alone:
            wrapper = self._wrappers[0]
            self._hooks = [
                wrapper.register_forward_pre_hook(self._begins_forward),
                wrapper.register_forward_hook(self._ran_forward),
            ]

    def hand(self, *, last: bool) -> None:
        self.take_due_turn()
        self._due = self._alone and (self._every or last)
        if self._due and not self._owed:
            self._owed = 1
        self._set(self._due)

    def at_close(self) -> None:
        self._owed = 0
        self._due = self._alone = False
        self._set(False)

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._alone = len(self._wrappers) == 1
        self._set(True)

    def _set(self, sync: bool) -> None:
        for wrapper in self._wrappers:
            wrapper.require_backward_grad_sync = sync

    def _begins_forward(self, *_: object) -> None:
        if self._wrappers[0].require_backward_grad_sync and torch.is_grad_enabled():
            self._begun = True

    def _ran_forward(self, *_: object) -> None:
        if self._wrappers[0].require_backward_grad_sync and torch.is_grad_enabled():
            self._prepared = True

    # Its backwards

    @property
    def exchanging(self) -> bool:
        return self._prepared

    def credited(self) -> bool:
        synced = self._prepared
        self._begun = self._prepared = False
        self.unsynced = not synced
        if synced:
            self.exchanged = True
            self._turn_taken()
        return synced

    def torn(self) -> None:
        """Where it was exchanged, some of the gradients are already away, and a turn that is torn
        cannot be taken again."""
        self.stuck = self._prepared

    def leaves(self) -> list[Tensor]:
        return [p for wrapper in self._wrappers for p in wrapper.parameters() if p.requires_grad]

    # Turns

    @property
    def late(self) -> bool:
        """The micro-batch is over, should have been exchanged and was not."""
        return self._due

    @property
    def owes(self) -> bool:
        return self._owed > 0

    def take_due_turn(self) -> None:
        if self._due:
            self._empty_turn()

    def finish(self) -> None:
        """At the window's end: the turns that the others take and this rank did not."""
        while self._owed > 0:
            self._empty_turn()

    def _turn_taken(self) -> None:
        self._owed -= 1
        self._due = False
        if self._by_loader:
            self._set(False)  # one turn for each micro-batch, or the ranks could not keep count

    def _empty_turn(self) -> None:
        """What this rank has accumulated is exchanged with it."""
        wrapper = self._wrappers[0]
        self._set(True)
        forward_and_backward_of_nothing(wrapper, self._touched(wrapper), begun=self._begun)
        self._begun = self._prepared = self.unsynced = False
        self._turn_taken()

    def _touched(self, wrapper: Any) -> list[Tensor]:
        """All, or where DDP looks for unused ones those with a gradient: None must stay None."""
        leaves = self.leaves()
        if not wrapper.find_unused_parameters:
            return leaves
        return [leaf for leaf in leaves if leaf.grad is not None] or leaves[:1]

    # What lies elsewhere

    def exchange(self, parameters: list[Tensor]) -> None:
        average(parameters, self._group)
        self.unsynced = False

    def state(self) -> list[bool]:
        """Whether the next forward begins with the first rank's buffers."""
        return [bool(wrapper.require_forward_param_sync) for wrapper in self._wrappers]

    def restore(self, state: list[bool]) -> None:
        for wrapper, due in zip(self._wrappers, state, strict=False):  # none if shards were saved
            wrapper.require_forward_param_sync = due


def exchange_of(owners: list[Owner], sync: Sync | None) -> DDPExchange:
    wrappers = [
        module
        for owner in owners
        for module in owner.model.modules()
        if isinstance(module, DistributedDataParallel)
    ]
    covered = {id(p) for wrapper in wrappers for p in wrapper.parameters()}
    for owner in owners:
        bare = [p for p in parameters_of(owner.optimizer) if id(p) not in covered]
        if bare:
            names = ", ".join(owner.names_of(bare)[:3])
            raise SetupError(
                f"here are {dist.get_world_size()} ranks, and nobody exchanges the gradients of "
                f"{names}: wrap the model in DistributedDataParallel or call fully_shard(model)"
            )
    check_world({wrapper.process_group.size() for wrapper in wrappers})
    static = any(wrapper.static_graph for wrapper in wrappers)
    if static and sync == "last":
        raise SetupError(
            "DistributedDataParallel(static_graph=True) must exchange its very first backward, so "
            'sync="last" is not possible: use sync="every" or leave static_graph out'
        )
    return DDPExchange(wrappers, every=static or sync == "every")
