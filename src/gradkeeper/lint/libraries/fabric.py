"""Fabric: hands back what it is given, and divides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Tuple
from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Instance,
    Labelled,
    LibraryClass,
    StandIn,
    flatten,
    visible,
)
from gradkeeper.lint.interpreter.values import NONE, TRUE, Call, Condition, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import amp, roles
from gradkeeper.lint.libraries.data import lend
from gradkeeper.lint.libraries.gradients import retains
from gradkeeper.lint.libraries.leaves import Leaf, atoms
from gradkeeper.lint.libraries.nn import LoadedState, StateDict, module_of
from gradkeeper.lint.libraries.optim import optimizer_of
from gradkeeper.lint.libraries.parameters import Params
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape
from gradkeeper.lint.libraries.standard_library import NullContext
from gradkeeper.lint.libraries.tensors import credit
from gradkeeper.lint.libraries.torch import NoSync, clip
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

CLASSES = frozenset(
    {
        "lightning.Fabric",
        "lightning.fabric.Fabric",
        "lightning.fabric.fabric.Fabric",
        "lightning_fabric.Fabric",
        "lightning_fabric.fabric.Fabric",
        "lightning.lite.LightningLite",
        "pytorch_lightning.lite.LightningLite",
        "lightning_lite.LightningLite",
    }
)
SHOWS = words("no_backward_sync setup_dataloaders setup_module setup_optimizers")
"""Attributes that, beside `backward`, nothing but a Fabric has."""
SILENT = words("print log log_dict barrier call seed_everything mark_forward_method")
SAME = words("setup_dataloaders to_device broadcast")
CONTEXTS = words("init_module init_tensor sharded_model rank_zero_first")


class Fabric(Labelled):
    __slots__ = ("me",)

    def __init__(self) -> None:
        self.label = "fabric"
        self.me: Value = self

    def attribute(self, m: Machine, name: str) -> Value:
        if name in SILENT or name == "__init__":
            return BuiltIn(name, lambda call: NONE)
        if name in SAME:
            return BuiltIn(name, _given)
        if name in CONTEXTS:
            return BuiltIn(name, lambda call: NullContext())
        if name in ("all_gather", "all_reduce"):
            return BuiltIn(
                name, lambda call: m.unknown(f"{self.text}.{name}()", data=True, fixed=False)
            )
        return StandIn.attribute(self, m, name)

    @visible
    def setup(self, call: Call) -> Value:
        for argument in call.args:
            _replicate(call.m, argument)
        return _given(call)

    @visible
    def setup_module(self, call: Call) -> Value:
        return self.setup(call)

    @visible
    def setup_optimizers(self, call: Call) -> Value:
        return _given(call)

    @visible
    def backward(self, call: Call) -> Value:
        credit(call.m, call.argument(0, "tensor") or NONE, retains=retains(call))
        return NONE

    @visible
    def clip_gradients(self, call: Call) -> Value:
        """Of a module, or of the optimizer's parameters; unscales by itself."""
        m = call.m
        bound = call.argument(2, "clip_val") or call.argument(3, "max_norm")
        target = (call.argument(0, "module") or NONE).resolve(m)
        given = call.argument(1, "optimizer")
        optimizer = roles.as_optimizer(m, given) if given is not None else None
        if optimizer is not None:
            if not optimizer.owner.known:
                m.state(RunTape).note(m, ev.Clip, (optimizer.owner,), scale_aware=True)
                return NONE
            target = Params(tuple(optimizer.owner.leaves), target.text)
        else:
            module = module_of(target)
            if module is not None:
                target = Params(tuple(module.leaves()), target.text)
        clip(m, target, bound, aware=True)
        return NONE

    @visible
    def no_backward_sync(self, call: Call) -> Value:
        return Unsynced(call.argument(1, "enabled") or TRUE)

    @visible
    def autocast(self, call: Call) -> Value:
        return amp.Autocast(None, None)

    @visible
    def launch(self, call: Call) -> Value:
        """launch(main) calls main(fabric, ...); launch() does nothing."""
        if not call.args:
            return NONE
        rest = Call(call.m, [self.me, *call.args[1:]], call.kwargs)
        return call.args[0].call(rest)

    @visible
    def save(self, call: Call) -> Value:
        leaves, optimizers = _held(call)
        if leaves:
            note = call.m.state(RunTape).note
            note(call.m, ev.Save, leaves, optimizers=tuple(optimizers))
        return NONE

    @visible
    def load(self, call: Call) -> Value:
        leaves, _ = _held(call)
        if leaves:
            call.m.state(RunTape).note(call.m, ev.Restore, leaves, disk=True)
        return LoadedState()

    @visible
    def load_raw(self, call: Call) -> Value:
        return self.load(call)


class Unsynced(NoSync):
    """no_backward_sync(module, enabled=...)."""

    __slots__ = ("enabled", "entered")

    def __init__(self, enabled: Value) -> None:
        super().__init__()
        self.enabled = enabled
        self.entered: list[bool] = []

    def enter(self, m: Machine) -> Value:
        answer = self.enabled.truth(m)
        if isinstance(answer, Condition):
            answer = m.ask(answer)
        self.entered.append(answer)
        return NoSync.enter(self, m) if answer else NONE

    def leave(self, m: Machine) -> None:
        if self.entered and self.entered.pop():
            NoSync.leave(self, m)


def _replicate(m: Machine, value: Value) -> None:
    module = module_of(value.resolve(m))
    if module is not None:
        m.must_be_sure()
        for leaf in atoms(module.leaves()):
            leaf.replicated = True


def _given(call: Call) -> Value:
    given = [argument.resolve(call.m) for argument in call.args]
    lend(given)
    schedule = call.kwargs.get("scheduler")
    if schedule is not None:
        given.append(schedule)
    return given[0] if len(given) == 1 else Tuple(given)


def _held(call: Call) -> tuple[dict[Leaf, None], dict[RecordedOwner, None]]:
    """The networks and optimizers in a state that is saved or loaded."""
    leaves: dict[Leaf, None] = {}
    optimizers: dict[RecordedOwner, None] = {}
    for argument in flatten(call.values()):
        module, optimizer = module_of(argument), optimizer_of(argument)
        if module is not None:
            leaves.update(dict.fromkeys(module.leaves()))
        elif optimizer is not None:
            optimizers[optimizer.owner] = None
        elif isinstance(argument, StateDict):
            leaves.update(dict.fromkeys(argument.leaves))
            optimizers.update(dict.fromkeys(argument.optimizers))
    return leaves, optimizers


def shown(m: Machine, value: Unknown, uses: set[str]) -> StandIn | None:
    """A Fabric that was handed in, known by what is asked of it."""
    if "backward" not in uses or not uses & SHOWS:
        return None
    made = Fabric()
    made.label = value.text
    return made


def _half(instance: Instance, call: Call) -> Value:
    made = Fabric()
    made.me = instance
    return made


def find(m: Machine, name: str) -> Value | None:
    """What a name of Fabric's packages stands for."""
    if name in CLASSES:
        return LibraryClass(name, lambda call: Fabric(), half=_half)
    return None
