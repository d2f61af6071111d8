"""accelerate: an Accelerator between the loop and its optimizers.

Inside `accumulate()` what was prepared steps, zeroes and ticks on each n-th batch only, and on the
loader's last one; `backward()` divides by n. What was not prepared does as it is told.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Collection, Range, Tuple
from gradkeeper.lint.interpreter.frames import Loop
from gradkeeper.lint.interpreter.objects import BuiltIn, Labelled, LibraryClass, StandIn, visible
from gradkeeper.lint.interpreter.state import LONGEST_WINDOW
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import amp, roles
from gradkeeper.lint.libraries.builtins import OpenRange
from gradkeeper.lint.libraries.data import Loader, lend
from gradkeeper.lint.libraries.factors import ONE, UNKNOWN_FACTOR, Factor
from gradkeeper.lint.libraries.gradients import retains
from gradkeeper.lint.libraries.leaves import Leaf, atoms
from gradkeeper.lint.libraries.nn import StateDict, module_of
from gradkeeper.lint.libraries.optim import Frameworks, Scheduler, optimizer_of
from gradkeeper.lint.libraries.provenance import Modes
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape
from gradkeeper.lint.libraries.tensors import credit
from gradkeeper.lint.libraries.torch import NoSync, clip
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

SHOWS = words("sync_gradients accumulate gather_for_metrics unwrap_model")
"""Attributes that, beside `backward`, nothing but an Accelerator has."""
SILENT = words(
    """print log wait_for_everyone init_trackers end_training register_for_checkpointing
    register_save_state_pre_hook register_load_state_pre_hook set_trigger save_model clear
    verify_device_map unscale_gradients"""
)
SAME = words("unwrap_model skip_first_batches prepare_data_loader")
DATA = words("gather gather_for_metrics reduce pad_across_processes")


class Accelerator(Labelled):
    """An Accelerator. `seen`: the program builds it, so that what it prepares is known."""

    __slots__ = ("count", "leaves", "owners", "prepared", "seen", "short", "steps", "sync")

    def __init__(self, steps: Value, *, seen: bool = True) -> None:
        self.steps = steps
        self.seen = seen
        self.label = "accelerator"
        self.count = 0
        self.sync = True
        self.short = False
        """The window is the loader's last one, and not full: its weight is Accelerate's affair."""
        self.prepared: set[Hashable] = set()
        self.leaves: dict[Leaf, None] = {}
        self.owners: dict[RecordedOwner, None] = {}

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "sync_gradients":
            return Constant(self.sync)
        if name == "gradient_accumulation_steps":
            return self.steps
        if name == "state":
            return RunState()
        if name == "deepspeed_plugin":
            return NONE
        if name == "optimizer_step_was_skipped":
            return m.unknown(f"{self.text}.{name}", fixed=False)
        if name in SILENT:
            return BuiltIn(name, lambda call: NONE)
        if name in SAME:
            return BuiltIn(name, _given)
        if name == "free_memory":
            return BuiltIn(name, _freed)
        if name in DATA:
            return BuiltIn(
                name, lambda call: m.unknown(f"{self.text}.{name}()", data=True, fixed=False)
            )
        if name.startswith("prepare_"):
            return BuiltIn(name, lambda call: self._prepare(call.m, call.argument(0) or NONE))
        return StandIn.attribute(self, m, name)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        if name == "gradient_accumulation_steps":
            m.must_be_sure()
            self.steps = value
        elif name == "sync_gradients":
            m.must_be_sure()
            self.sync = value.truth(m) is not False
        else:
            StandIn.set_attribute(self, m, name, value)

    def idle(self, m: Machine) -> bool:
        return not self.sync

    # -- preparing

    @visible
    def prepare(self, call: Call) -> Value:
        found = [self._prepare(call.m, argument) for argument in call.args]
        return found[0] if len(found) == 1 else Tuple(found)

    def _prepare(self, m: Machine, value: Value) -> Value:
        value = value.resolve(m)
        m.must_be_sure()
        lend([value])
        self.prepared.add(value.key)
        m.kept.append(value)
        of: Value = value
        if isinstance(value, Unknown):
            of = self._used_as(m, value)
        optimizer, module = optimizer_of(of), module_of(of)
        if optimizer is not None:
            optimizer.owner.frozen_while = self.idle
            self.owners[optimizer.owner] = None
        elif isinstance(of, Scheduler):
            of.frozen_while = self.idle
        elif module is not None:
            for leaf in atoms(module.leaves()):
                leaf.replicated = True
                self.leaves[leaf] = None
        return value

    def _used_as(self, m: Machine, value: Unknown) -> Value:
        """What the program uses something as that it did not build in sight."""
        kind = roles.kind_of(m, value)
        if kind == "optimizer":
            return roles.as_optimizer(m, value) or value
        if kind == "module":
            return roles.as_module(m, value)
        if kind == "scheduler":
            return roles.as_scheduler(m, value) or value
        return value

    # -- windows

    def window(self, m: Machine) -> int:
        """How many batches make a window."""
        self.steps = self.steps.resolve(m)
        known = m.known_number(self.steps)
        if known is None:
            return m.number(self.steps) if self.steps.fixed else 1
        if 1 < known <= LONGEST_WINDOW:
            m.period = max(m.period, int(known))
        return max(1, int(known))

    @visible
    def accumulate(self, call: Call) -> Value:
        return Accumulating(self)

    def next_batch(self, m: Machine) -> None:
        """In step with each n-th batch, and with a loader's last one."""
        m.must_be_sure()
        if not self.seen:
            m.state(Frameworks).frozen_while = self.idle
        steps = self.window(m)
        self.count += 1
        full = self.count % steps == 0
        last = self._at_the_end(m)
        self.sync = full or last
        self.short = last and not full
        if last:
            self.count = 0

    def _at_the_end(self, m: Machine) -> bool:
        """Whether this is the last batch of a loader that Accelerate knows."""
        for loop in reversed(m.loops):
            if loop.kind == "batches":
                return loop.index == loop.rounds - 1 and self._knows(loop)
        return False

    def _knows(self, loop: Loop) -> bool:
        source = loop.iterable
        while source is not None and source.key not in self.prepared:
            inner = getattr(source, "of", None)
            if isinstance(inner, tuple):
                inner = inner[0] if inner else None
            if not isinstance(inner, Value):
                break
            source = inner
        if source is None or isinstance(source, (Collection, Range, OpenRange)):
            return False
        if source.key in self.prepared:
            return True
        return not (self.seen and isinstance(source, Loader))

    @visible
    def no_sync(self, call: Call) -> Value:
        return NoSync()

    @visible
    def backward(self, call: Call) -> Value:
        m = call.m
        steps = self.window(m)
        factor = Factor(1 / steps, divisors=(float(steps),))
        if isinstance(self.steps, Unknown):
            m.kept.append(self.steps)
            key = self.steps.key
            factor = Factor(below=(key,), divisors=(key,)) if self.steps.fixed else UNKNOWN_FACTOR
        if self.short:
            factor = UNKNOWN_FACTOR
        loss = call.argument(0, "loss") or NONE
        divided_by = factor if steps > 1 else ONE
        credit(m, loss, divided_by=divided_by, retains=retains(call))
        return NONE

    # -- clipping: unscales by itself, and does so whenever it is called

    @visible
    def clip_grad_norm_(self, call: Call) -> Value:
        bound = call.argument(1, "max_norm")
        clip(call.m, call.argument(0, "parameters") or NONE, bound, aware=True)
        return call.m.unknown("norm", data=True, fixed=False)

    @visible
    def clip_grad_value_(self, call: Call) -> Value:
        bound = call.argument(1, "clip_value")
        clip(call.m, call.argument(0, "parameters") or NONE, bound, aware=True)
        return NONE

    @visible
    def autocast(self, call: Call) -> Value:
        return amp.Autocast(None, None)

    # -- state

    @visible
    def save_state(self, call: Call) -> Value:
        if self.leaves:
            note = call.m.state(RunTape).note
            note(call.m, ev.Save, self.leaves, optimizers=tuple(self.owners))
        return NONE

    @visible
    def load_state(self, call: Call) -> Value:
        if self.leaves:
            call.m.state(RunTape).note(call.m, ev.Restore, self.leaves, disk=True)
        return NONE

    @visible
    def save(self, call: Call) -> Value:
        return NONE

    @visible
    def get_state_dict(self, call: Call) -> Value:
        module = module_of(call.argument(0, "model") or NONE)
        return StateDict(tuple(module.leaves()) if module is not None else ())


class RunState(StandIn):
    """accelerator.state. With DeepSpeed's plugin the books are DeepSpeed's: rehearsed without."""

    __slots__ = ()

    @property
    def key(self) -> Hashable:
        return ("state of an accelerator",)

    @property
    def text(self) -> str:
        return "accelerator.state"

    def attribute(self, m: Machine, name: str) -> Value:
        return NONE if name == "deepspeed_plugin" else StandIn.attribute(self, m, name)


class Accumulating(StandIn):
    """with accelerator.accumulate(model)."""

    __slots__ = ("before", "of")

    def __init__(self, of: Accelerator) -> None:
        self.of = of
        self.before: list[bool] = []

    def enter(self, m: Machine) -> Value:
        self.of.next_batch(m)
        modes = m.state(Modes)
        self.before.append(modes.unsynced)
        modes.unsynced = modes.unsynced or not self.of.sync
        return NONE

    def leave(self, m: Machine) -> None:
        if self.before:
            m.state(Modes).unsynced = self.before.pop()


def _given(call: Call) -> Value:
    """What it was given first."""
    lend(call.values())
    return call.values()[0] if call.values() else NONE


def _freed(call: Call) -> Value:
    """free_memory(a, b): whoever goes on with them gets nothing."""
    return Tuple([NONE for _ in call.args])


def _make(call: Call) -> Value:
    steps = call.kwargs.get("gradient_accumulation_steps")
    plugin = call.kwargs.get("gradient_accumulation_plugin")
    if steps is None and isinstance(plugin, Plugin):
        steps = plugin.steps
    if steps is None and (call.open or plugin is not None):
        steps = call.m.unknown("gradient_accumulation_steps")
    return Accelerator(steps or Constant(1))


class Plugin(StandIn):
    """GradientAccumulationPlugin(num_steps=...)."""

    __slots__ = ("steps",)

    def __init__(self, steps: Value) -> None:
        self.steps = steps


def _plugin(call: Call) -> Value:
    return Plugin(call.argument(0, "num_steps") or Constant(1))


def shown(m: Machine, value: Unknown, uses: set[str]) -> StandIn | None:
    """An Accelerator that was handed in, known by what is asked of it."""
    if "backward" not in uses or not uses & SHOWS:
        return None
    steps = Unknown(("steps of", value.key), f"{value.text}.gradient_accumulation_steps")
    made = Accelerator(steps, seen=False)
    made.label = value.text
    m.state(Frameworks).frozen_while = made.idle
    return made


def find(m: Machine, name: str) -> Value | None:
    """What a name that begins with `accelerate` stands for."""
    if name in ("accelerate.Accelerator", "accelerate.accelerator.Accelerator"):
        return LibraryClass(name, _make)
    if name.endswith(".GradientAccumulationPlugin"):
        return LibraryClass(name, _plugin)
    if name in ("accelerate.skip_first_batches", "accelerate.data_loader.skip_first_batches"):
        return BuiltIn(name, _given)
    return None
