"""DeepSpeed: an engine that divides, accumulates, clips, steps and zeroes by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Tuple
from gradkeeper.lint.interpreter.objects import BuiltIn, LibraryClass, flatten, visible
from gradkeeper.lint.interpreter.values import NONE, Call, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import optim
from gradkeeper.lint.libraries.factors import UNKNOWN_FACTOR
from gradkeeper.lint.libraries.leaves import atoms
from gradkeeper.lint.libraries.nn import module_of, unseen_network
from gradkeeper.lint.libraries.optim import Scheduler, optimizer_of
from gradkeeper.lint.libraries.provenance import OPEN
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.libraries.roles import as_module
from gradkeeper.lint.libraries.standard_library import NullContext
from gradkeeper.lint.libraries.tensors import as_tensor, credit
from gradkeeper.lint.libraries.torch import Wrapper

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

SILENT = words("zero_grad allreduce_gradients set_train_batch_size destroy save_checkpoint")
"""Saving holds its own gradients too."""


class DeepSpeedEngine(Wrapper):
    """What deepspeed.initialize() gives: the module, with books of its own."""

    __slots__ = ()

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "step":
            return BuiltIn(name, _step)
        if name in SILENT:
            return BuiltIn(name, lambda call: NONE)
        if name == "is_gradient_accumulation_boundary":
            return BuiltIn(name, lambda call: m.unknown(name, fixed=False))
        if name in ("load_checkpoint", "train_batch", "eval_batch", "get_global_grad_norm"):
            return BuiltIn(name, lambda call: m.unknown(f"{name}()", data=True, fixed=False))
        if name in ("optimizer", "lr_scheduler"):
            return m.unknown(f"{self.text}.{name}", self, part=True)
        return Wrapper.attribute(self, m, name)

    @visible
    def backward(self, call: Call) -> Value:
        """The engine's own parameters are its affair; others may be behind the same loss."""
        m = call.m
        m.state(RunTape).credited(m.loops)
        loss = as_tensor(m, call.argument(0, "loss") or NONE)
        own = set(atoms(self.leaves()))
        others = frozenset(leaf for leaf in atoms(loss.flow) if leaf not in own)
        if others:
            rest = loss.like(m)
            rest.flow, rest.others = others, loss.others - {OPEN}
            credit(m, rest, divided_by=UNKNOWN_FACTOR)
        return NONE


def _step(call: Call) -> Value:
    """Right on every micro-batch: the engine counts."""
    call.m.state(RunTape).spent()
    return NONE


def initialize(call: Call) -> Value:
    """initialize(args, model, optimizer, ...): engine, optimizer, loader, schedule."""
    m = call.m
    m.must_be_sure()
    given = (call.argument(1, "model") or NONE).resolve(m)
    module = module_of(given)
    if module is None:
        module = as_module(m, given) if isinstance(given, Unknown) else unseen_network("engine")
    for argument in flatten(call.values()):
        optimizer = optimizer_of(argument)
        if optimizer is not None:
            optimizer.owner.escaped = optimizer.owner.kept = True
            optimizer.owner.frozen_while = _always
        elif isinstance(argument, Scheduler):
            argument.frozen_while = _always
    own = call.argument(2, "optimizer")
    rest = [own or m.unknown("optimizer"), m.unknown("loader"), m.unknown("schedule")]
    return Tuple([DeepSpeedEngine(module, given if module_of(given) else module), *rest])


def _always(m: Machine) -> bool:
    """Steps and ticks are the engine's to take."""
    return True


def find(m: Machine, name: str) -> Value | None:
    """What a name that begins with `deepspeed` stands for."""
    last = name.rpartition(".")[2]
    if name == "deepspeed.initialize":
        return BuiltIn(name, initialize)
    if name == "deepspeed.add_config_arguments":
        return BuiltIn(name, lambda call: call.args[0] if call.args else NONE)
    if name == "deepspeed.zero.Init":
        return LibraryClass(name, lambda call: NullContext())
    if name.startswith("deepspeed.ops.") and last[:1].isupper():
        return LibraryClass(name, lambda call: optim.build(call, last))
    return None
