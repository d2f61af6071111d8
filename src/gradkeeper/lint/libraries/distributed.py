"""torch.distributed, horovod, torch_xla: FSDP2, optimizers that are sharded, remote, wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.objects import BuiltIn, LibraryClass, StandIn, visible
from gradkeeper.lint.interpreter.values import NONE, Call, Condition, Constant, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import optim
from gradkeeper.lint.libraries.leaves import atoms
from gradkeeper.lint.libraries.nn import module_of
from gradkeeper.lint.libraries.optim import Optimizer, optimizer_of, take_step
from gradkeeper.lint.libraries.provenance import Modes
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.libraries.roles import as_module, as_optimizer, kind_of
from gradkeeper.lint.libraries.standard_library import NullContext
from gradkeeper.lint.libraries.tensors import Grad
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


class Remote(StandIn):
    """An optimizer over RPC: gradients live in a context of their own, on other machines."""

    __slots__ = ()

    @visible
    def step(self, call: Call) -> Value:
        return NONE

    @visible
    def zero_grad(self, call: Call) -> Value:
        return NONE


def _sharded(call: Call) -> Value:
    """fully_shard(module): the module itself, whose ranks exchange gradients from now on."""
    m = call.m
    given = (call.argument(0, "module") or NONE).resolve(m)
    module = module_of(given)
    if module is None and isinstance(given, Unknown):
        module = as_module(m, given)
    if module is not None:
        m.must_be_sure()
        for leaf in atoms(module.leaves()):
            leaf.replicated = True
        for known_as in (module.me, given):
            attributes = m.attributes_of(known_as)
            attributes["set_requires_gradient_sync"] = BuiltIn("sync", _set_sync)
            attributes["set_is_last_backward"] = BuiltIn("last", _nothing)
    return given


def _set_sync(call: Call) -> Value:
    on = (call.argument(0, "requires_gradient_sync") or NONE).truth(call.m)
    call.m.must_be_sure()
    answer = call.m.ask(on) if isinstance(on, Condition) else on
    call.m.state(Modes).unsynced_shards = not answer
    return NONE


def _nothing(call: Call) -> Value:
    return NONE


def wrapped_optimizer(call: Call) -> Value:
    """A wrapper around an optimizer: for whoever uses it, the optimizer itself."""
    for argument in (*call.args, *call.kwargs.values()):
        given = argument.resolve(call.m)
        if optimizer_of(given) is not None:
            return given
        if isinstance(given, Unknown) and kind_of(call.m, given) == "optimizer":
            return as_optimizer(call.m, given) or given
    return call.m.unknown("optimizer")


def _zero_redundancy(call: Call) -> Value:
    kind = call.kwargs.get("optimizer_class")
    return optim.build(call, kind.text if kind is not None else "Adam")


def _remote(call: Call) -> Value:
    return Remote()


def _averaged_by_hand(call: Call) -> Value:
    given = wrapped_optimizer(call)
    return given if isinstance(given, Optimizer) else Remote()


def _all_reduce(call: Call) -> Value:
    """The program itself sums over the ranks: a gradient, maybe."""
    given = (call.argument(0, "tensor") or NONE).resolve(call.m)
    if isinstance(given, Grad):
        call.m.state(RunTape).note(call.m, ev.Reduce, given.of.leaves)
    return call.unseen(Constant("torch.distributed.all_reduce"))


def _spawn(call: Call) -> Value:
    """spawn(function, args): what each rank does, told once."""
    function, args = call.argument(0, "fn"), call.argument(1, "args")
    if function is not None:
        rank = Unknown(("machine", "rank"), "rank")
        given = list(args.held()) if args is not None else []
        function.call(Call(call.m, [rank, *given]))
    return NONE


EXACT = {
    "torch.multiprocessing.spawn": _spawn,
    "torch.distributed.all_reduce": _all_reduce,
    "torch.distributed.fsdp.fully_shard": _sharded,
    "torch.distributed._composable.fsdp.fully_shard": _sharded,
    "torch.distributed._composable.replicate": _sharded,
    "torch.distributed.optim.ZeroRedundancyOptimizer": _zero_redundancy,
    "torch.distributed.optim.DistributedOptimizer": _remote,
    "torch.distributed.optim.PostLocalSGDOptimizer": _averaged_by_hand,
    "torch.distributed.autograd.backward": _nothing,
    "torch.distributed.autograd.context": lambda call: NullContext(call.m.unknown("context")),
}


def find(m: Machine, name: str) -> Value | None:
    """Names of torch that wrap what others have made."""
    work = EXACT.get(name)
    if work is None:
        return None
    last = name.rpartition(".")[2]
    return LibraryClass(name, work) if last[:1].isupper() else BuiltIn(name, work)


OF_HOROVOD = words(
    """init shutdown broadcast_parameters broadcast_optimizer_state broadcast_object barrier"""
)


def find_horovod(m: Machine, name: str) -> Value | None:
    last = name.rpartition(".")[2]
    if last == "DistributedOptimizer":
        return LibraryClass(name, wrapped_optimizer)
    if last in OF_HOROVOD:
        return BuiltIn(name, _nothing)
    if last in ("allreduce", "allgather", "broadcast", "allreduce_"):
        return BuiltIn(name, lambda call: m.unknown(last, data=True, fixed=False))
    return None


# -- torch_xla


class ParallelLoader(StandIn):
    """What brings the batches of a loader to the devices."""

    __slots__ = ("of",)

    def __init__(self, of: Value) -> None:
        self.of = of

    @visible
    def per_device_loader(self, call: Call) -> Value:
        return self.of


def _sum_gradients(call: Call) -> Optimizer | None:
    given = as_optimizer(call.m, call.argument(0, "optimizer") or NONE)
    if given is not None:
        call.m.state(RunTape).note(call.m, ev.Reduce, tuple(given.owner.leaves))
    return given


def _reduce_and_step(call: Call) -> Value:
    """optimizer_step(optimizer): sums the gradients over the ranks, then steps."""
    optimizer = _sum_gradients(call)
    if optimizer is not None:
        take_step(call.m, optimizer, None)
    return NONE


def _reduce(call: Call) -> Value:
    _sum_gradients(call)
    return NONE


OF_XLA = {
    "optimizer_step": _reduce_and_step,
    "reduce_gradients": _reduce,
    "MpDeviceLoader": lambda call: call.argument(0, "loader") or NONE,
    "ParallelLoader": lambda call: ParallelLoader(call.argument(0, "loader") or NONE),
    "spawn": _spawn,
    "mark_step": _nothing,
}


def find_xla(m: Machine, name: str) -> Value | None:
    last = name.rpartition(".")[2]
    work = OF_XLA.get(last)
    if work is None:
        return None
    return LibraryClass(name, work) if last[:1].isupper() else BuiltIn(name, work)
