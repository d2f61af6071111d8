"""Packages of optimizers, private training, and trainers that keep a loop of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Tuple
from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    LibraryClass,
    StandIn,
    visible,
)
from gradkeeper.lint.interpreter.values import NONE, Call, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import optim
from gradkeeper.lint.libraries.distributed import wrapped_optimizer
from gradkeeper.lint.libraries.networks import network
from gradkeeper.lint.libraries.nn import zero
from gradkeeper.lint.libraries.optim import Optimizer, optimizer_of, take_step
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.libraries.standard_library import NullContext
from gradkeeper.lint.libraries.transformers import make_trainer
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

PLAIN = words(
    """bitsandbytes torchao galore_torch prodigyopt lion_pytorch pytorch_optimizer torch_optimizer
    came_pytorch schedulefree adabelief_pytorch adamp madgrad dadaptation sophia adan_pytorch
    adam_mini lomo_optim heavyball muon q_galore_torch apollo_torch pytorch_lamb radam"""
)
"""Packages whose classes are optimizers over the parameters they are given first."""
WRAPPERS = words("Lookahead SWA ScheduleFreeWrapper GradientCentralization OrthoGrad")
NO_OPTIMIZERS = words("Linear4bit Linear8bitLt Params4bit Int8Params BitsAndBytesConfig")


def find_plain(m: Machine, name: str) -> Value | None:
    """A class of a package that holds optimizers."""
    last = name.rpartition(".")[2]
    if not last[:1].isupper() or last in NO_OPTIMIZERS or ".nn." in name:
        return None
    if last in WRAPPERS:
        return LibraryClass(name, wrapped_optimizer)
    if last in ("SAM", "GSAM", "WSAM"):
        return LibraryClass(name, _sharp)
    if last.endswith(("LR", "Scheduler", "Schedule")):
        return LibraryClass(name, lambda call: optim.schedule(call, last))
    return LibraryClass(name, lambda call: optim.build(call, last))


def _sharp(call: Call) -> Value:
    made = optim.build(call, "SGD")
    assert isinstance(made, Optimizer)
    return Sharp(made)


class Sharp(Optimizer):
    """SAM: its first step moves the weights aside, its second one is the update."""

    __slots__ = ()

    def __init__(self, of: Optimizer) -> None:
        Optimizer.__init__(self, of.owner, of.kind)

    @visible
    def first_step(self, call: Call) -> Value:
        call.m.state(RunTape).note(call.m, ev.Move, tuple(self.owner.leaves))
        return self._zeroed(call)

    @visible
    def second_step(self, call: Call) -> Value:
        take_step(call.m, self, None)
        return self._zeroed(call)

    def _zeroed(self, call: Call) -> Value:
        zeroes = call.argument(0, "zero_grad")
        if zeroes is not None and zeroes.truth(call.m) is True:
            zero(call.m, tuple(self.owner.leaves), None)
        return NONE


# -- opacus


class PrivacyEngine(StandIn):
    """opacus: hands back what it is given; the optimizer clips and normalises per sample."""

    __slots__ = ()

    @visible
    def make_private(self, call: Call) -> Value:
        names = ("module", "optimizer", "data_loader")
        given = [(call.argument(99, name) or NONE).resolve(call.m) for name in names]
        optimizer = optimizer_of(given[1])
        if optimizer is not None:
            call.m.must_be_sure()
            optimizer.before.append(BuiltIn("normalise", lambda inner: _normalise(inner)))
        criterion = call.kwargs.get("criterion")
        return Tuple(given if criterion is None else [given[0], given[1], criterion, given[2]])

    @visible
    def make_private_with_epsilon(self, call: Call) -> Value:
        return self.make_private(call)


def _normalise(call: Call) -> Value:
    """What is in .grad when it steps was made from gradients of single samples."""
    of = optimizer_of(call.args[0]) if call.args else None
    if of is not None and of.owner.leaves:
        call.m.state(RunTape).note(call.m, ev.Adjust, tuple(of.owner.leaves))
    return NONE


def find_opacus(m: Machine, name: str) -> Value | None:
    last = name.rpartition(".")[2]
    if last == "PrivacyEngine":
        return LibraryClass(name, lambda call: PrivacyEngine())
    if last == "BatchMemoryManager":
        return LibraryClass(name, lambda call: NullContext(call.kwargs.get("data_loader") or NONE))
    return None


# -- composer


def find_composer(m: Machine, name: str) -> Value | None:
    last = name.rpartition(".")[2]
    if last == "Trainer":
        return LibraryClass(name, make_trainer)
    if last == "ComposerModel":
        return network(name, own=False)
    if name.startswith("composer.optim.") and last[:1].isupper():
        if last.endswith("Scheduler"):
            return None
        return LibraryClass(name, lambda call: optim.build(call, last))
    return None
