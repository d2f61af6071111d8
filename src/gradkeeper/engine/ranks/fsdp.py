"""FSDP2: which backward is reduced into the shards, and backwards that others wait for."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.distributed.fsdp import FSDPModule

from gradkeeper.engine.backward import only_zeros_reach
from gradkeeper.engine.errors import SetupError, WindowError
from gradkeeper.engine.gradients import Norm, norm_among
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.engine.ranks.base import Exchange, Sync, check_world
from gradkeeper.torch_private import (
    Undo,
    all_reduce_pending,
    can_defer_all_reduce,
    can_fill_unreached,
    clear_pending,
    data_parallel_size,
    divides_by,
    fill_unreached,
    fill_waiting,
    fsdp_parameters,
    outputs_in,
    reduce_pending,
    sharded_parameter,
    spare_unrun,
    unsharded_parameter,
    unsharded_parameters,
)

# Forwards of a sharded model whose backward is still to come.
#
# A rank that fails between the two, or leaves the loss out, runs that backward with zeros: the
# others are in theirs, where each waits for all. Kept are the edges of the graph, not the outputs,
# which may be large.


class GraphEnd(NamedTuple):
    """Where a backward enters the graph."""

    edge: GradientEdge
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


class Forwards:
    def __init__(self) -> None:
        self._ends: list[GraphEnd] = []
        self._inside = False
        """One has begun, and not come to its end: it may have failed."""

    def begin(self) -> None:
        self._inside = True

    def end(self, outputs: Any) -> None:
        self._inside = False
        for output in outputs_in(outputs):
            if output.requires_grad:
                self._ends.append(
                    GraphEnd(get_gradient_edge(output), output.shape, output.dtype, output.device)
                )

    def forget(self) -> None:
        self._ends = []
        self._inside = False

    @property
    def waiting(self) -> bool:
        return bool(self._ends) and not self._inside

    def run_backward(self, leaves: list[Tensor]) -> bool:
        """Of nothing; False where that cannot be done."""
        if not self.waiting:
            return False
        ends, self._ends = self._ends, []
        zeros = [torch.zeros(end.shape, dtype=end.dtype, device=end.device) for end in ends]
        try:
            with only_zeros_reach(leaves):
                torch.autograd.backward([end.edge for end in ends], zeros)
        except Exception:  # an older torch takes no edges; or the graph is gone, or the others are
            return False
        return True


# Which parameters the backwards of a window reached.
#
# FSDP2 lays the gradients of a group one behind the other, and adds them up by their place there:
# over the ranks and, where copies wait, over micro-batches. So those that a backward does not reach
# take part with zeros. An optimizer treats zeros otherwise than no gradient (decay, momentum):
# where nobody reached a parameter, its zeros are taken away at the window's end.


class Reached:
    def __init__(self, roots: list[FSDPModule]) -> None:
        self._parameters = list(fsdp_parameters(roots))
        self._unhooked = set(range(len(self._parameters)))
        self._places: set[int] = set()

    def hook(self) -> None:
        """Onto what is credited in modules that have run. A hook holds a set, not a model: so it
        may stay, and each parameter is hooked once."""
        for place in list(self._unhooked):
            whole = unsharded_parameter(self._parameters[place])
            if whole is not None and whole.requires_grad:
                whole.register_hook(partial(_mark, self._places, place))
                self._unhooked.remove(place)

    def forget(self) -> None:
        self._places.clear()

    @property
    def parameters(self) -> list[Tensor]:
        return [sharded_parameter(parameter) for parameter in self._parameters]

    @property
    def flags(self) -> list[bool]:
        return [
            place in self._places or not parameter.requires_grad
            for place, parameter in enumerate(self.parameters)
        ]

    def go_on(self, flags: list[bool]) -> None:
        self._places.update(place for place, flag in enumerate(flags) if flag)


def _mark(places: set[int], place: int, gradient: Tensor) -> None:
    places.add(place)


# Forward and backward are collective in FSDP2: so ranks read in step, and meet once more before
# each forward. A rank that failed is not waited for.


class FSDPExchange(Exchange):
    lockstep = True

    def __init__(
        self, model: nn.Module, parameters: list[Tensor], *, every: bool, defers: bool = False
    ) -> None:
        """`defers`: shards are exchanged in each backward, and their copies in the last."""
        self._model = model
        self._parameters = parameters
        self._roots = roots_of(model)
        self._every = every
        self._defers = defers
        self._all_reduces = True
        # Under "last" they wait in unsharded parameters, as large as the whole model; where copies
        # are added up at the window's end, in torch's own memory.
        self.keeps_pending = every and not defers
        ranks = dist.get_world_size()
        self._held_by = {id(p): ranks // shards_of(p) for p in parameters}
        """How many ranks hold the same part, by parameter."""
        counts = set(self._held_by.values())
        self._mixed = len(counts) > 1
        self.copies = 1 if self._mixed else counts.pop()
        self._meet: Callable[[], None] = lambda: None
        self._sync = True
        self._forwards = Forwards()
        self._hooks: list[Any] = []
        self._reached = Reached(self._roots)
        self.fills = can_fill_unreached(self._roots)
        self._stop_filling: Undo = lambda: None
        self._stop_sparing: Undo = lambda: None

    def meet_before_forward(self, meet: Callable[[], None]) -> None:
        self._meet = meet

    def open(self, planned: int | None, *, by_loader: bool) -> None:
        self.unsynced = self.exchanged = self.stuck = False
        self._set(self._every)
        self._reached.forget()
        if self.fills:
            self._stop_filling = fill_unreached(self._roots)
        if not self._every:
            self._stop_sparing = spare_unrun(self._roots)
        # In front of FSDP's own hook, which gathers the parameters.
        before = self._model.register_forward_pre_hook(self._before_forward, prepend=True)
        after = self._model.register_forward_hook(self._after_forward)
        self._hooks = [before, after]

    def hand(self, *, last: bool) -> None:
        if not self._every:
            self._set(last)
        elif self._defers:
            self._set_all_reduce(last)

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._stop_filling()
        self._stop_sparing()
        self._forwards.forget()
        self._set(True)
        self._set_all_reduce(True)

    def _set_all_reduce(self, now: bool) -> None:
        if now is self._all_reduces:
            return
        self._all_reduces = now
        for root in self._roots:
            root.set_requires_all_reduce(now)

    def _set(self, sync: bool) -> None:
        if sync is self._sync:
            return
        self._sync = sync
        if sync and self.fills:
            fill_waiting(self._roots)
        for root in self._roots:
            root.set_requires_gradient_sync(sync)
            root.set_is_last_backward(sync)

    def _before_forward(self, *_: object) -> None:
        self._meet()
        self._forwards.begin()
        self.exchanged = True
        self.stuck = True  # until its backward is done: the others are in theirs

    def _after_forward(self, module: nn.Module, inputs: object, outputs: object) -> None:
        self._forwards.end(outputs)
        self._reached.hook()

    def torn(self) -> None:
        self.stuck = True
        self._forwards.forget()

    def catch_up(self) -> bool:
        self.stuck = not self._forwards.run_backward(self.leaves())
        self.unsynced = not (self._sync and self._all_reduces)
        return not self.stuck

    def at_close(self) -> None:
        raise WindowError("closures cannot be used with FSDP2: use DDP")

    @property
    def late(self) -> bool:
        """The micro-batch is over, and its forward had no backward."""
        return self._forwards.waiting

    @property
    def exchanging(self) -> bool:
        return True

    def credited(self) -> bool:
        self.stuck = False
        self._forwards.forget()
        self.unsynced = not (self._sync and self._all_reduces)
        return not self.unsynced

    @property
    def reached(self) -> Reached:
        return self._reached

    def leaves(self) -> list[Tensor]:
        return unsharded_parameters(self._roots)

    def take_due_turn(self) -> None:
        self.catch_up()

    def exchange(self, parameters: list[Tensor]) -> None:
        self._set(True)
        self._set_all_reduce(True)
        if self._defers:
            all_reduce_pending(self._roots)
        else:
            reduce_pending(self._roots)
        self.unsynced = False

    def norm(self, parameters: list[Tensor]) -> Tensor:
        if not self._mixed:
            return super().norm(parameters)
        found = norm_among(parameters, self._held_by)
        assert found is not None, "asked where there are gradients"
        return found

    def reconsidered(self, norm: Norm, parameters: list[Tensor]) -> Norm:
        if not self._mixed:
            return super().reconsidered(norm, parameters)
        squares = []
        for count in set(self._held_by.values()):
            alike = [p for p in parameters if self._held_by[id(p)] == count]
            squares.append(super().reconsidered(norm, alike).length ** 2 / count)
        length = math.sqrt(math.fsum(squares))
        return Norm(torch.full_like(norm.tensor, length), length)

    def forget(self) -> None:
        clear_pending(self._roots)


def roots_of(model: nn.Module) -> list[FSDPModule]:
    """Sharded modules that lie in no other sharded module."""
    found: list[FSDPModule] = []
    waiting = [model]
    while waiting:
        module = waiting.pop()
        if isinstance(module, FSDPModule):
            found.append(module)
        else:
            waiting.extend(module.children())
    return found


def shards_of(parameter: Any) -> int:
    """Into how many parts it is cut."""
    count = 1
    for dimension, placement in enumerate(getattr(parameter, "placements", ())):
        if not placement.is_replicate():
            count *= parameter.device_mesh.size(dimension)
    return count


def has_copies(owners: list[Owner]) -> bool:
    """Whether groups of ranks shard, and their copies can be exchanged by themselves."""
    roots = [root for owner in owners for root in roots_of(owner.model)]
    return bool(roots) and can_defer_all_reduce(roots)


def exchange_of(owners: list[Owner], sync: Sync | None) -> FSDPExchange | None:
    """None where no model is sharded."""
    modules = (module for owner in owners for module in owner.model.modules())
    if not any(isinstance(module, FSDPModule) for module in modules):
        return None
    if len(owners) > 1:
        raise SetupError(
            "several owners cannot be sharded by FSDP2: a backward into some parameters only "
            "leaves their gradients empty there. Wrap the models in DistributedDataParallel"
        )
    owner = owners[0]
    parameters = parameters_of(owner.optimizer)
    whole = [p for p in parameters if not hasattr(p, "device_mesh")]
    if whole:
        names = ", ".join(owner.names_of(whole)[:3])
        raise SetupError(
            f"{names} and so on are not sharded, so nobody exchanges their gradients: call "
            "fully_shard(model) on the whole model, and build the optimizer after it"
        )
    defers = sync == "shards"
    exchange = FSDPExchange(owner.model, parameters, every=sync != "last", defers=defers)
    replicas, ranks = data_parallel_size(roots_of(owner.model)), dist.get_world_size()
    whole_meshes = [p.device_mesh for p in parameters if p.device_mesh.size() == ranks]  # type: ignore[attr-defined]
    if replicas < ranks and whole_meshes:
        # Tensor parallelism has the last dimensions of the mesh, fully_shard the first.
        exchange.alike = whole_meshes[0].mesh.reshape(replicas, -1).tolist()
    else:
        check_world({p.device_mesh.size() for p in parameters})  # type: ignore[attr-defined]
    if divides_by(roots_of(owner.model)) != {None}:
        raise SetupError(
            "set_gradient_divide_factor was called: gradients must be averaged over the ranks, "
            "because the engine weighs them by the items of all ranks itself"
        )
    return exchange
