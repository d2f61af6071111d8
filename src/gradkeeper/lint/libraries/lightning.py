"""Lightning: modules that it trains by itself, or that say how, batch by batch.

With automatic optimization the framework zeroes, accumulates, clips and steps: there is nothing to
say. With `automatic_optimization = False` it calls `training_step` for every batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Dict, List, Tuple
from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Instance,
    LibraryClass,
    StandIn,
    visible,
)
from gradkeeper.lint.interpreter.values import NONE, TRUE, Call, Condition, Constant, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import fabric
from gradkeeper.lint.libraries.gradients import retains
from gradkeeper.lint.libraries.leaves import Leaf, atoms
from gradkeeper.lint.libraries.nn import Module
from gradkeeper.lint.libraries.optim import Optimizer, Scheduler, optimizer_of
from gradkeeper.lint.libraries.parameters import Params
from gradkeeper.lint.libraries.roles import as_optimizer
from gradkeeper.lint.libraries.tensors import credit
from gradkeeper.lint.libraries.torch import clip
from gradkeeper.lint.libraries.trainer_loops import Framework, call_with, drive, method_of

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

SILENT = words("log log_dict print save_hyperparameters lr_scheduler_step __init__")
MOVING = words("current_epoch global_step")
"""Numbers that grow while training goes on."""
HOOKS = words(
    """training_step optimizer_step optimizer_zero_grad backward configure_gradient_clipping
    on_train_start on_train_end on_train_epoch_start on_train_epoch_end on_train_batch_start
    on_train_batch_end on_before_backward on_after_backward on_before_optimizer_step
    on_before_zero_grad training_epoch_end training_step_end"""
)


class LightningModule(Module, Framework):
    """What an object of the program has from LightningModule."""

    __slots__ = ("asked", "frozen", "optims", "schedules")

    def __init__(self, instance: Value) -> None:
        Module.__init__(self, None, "")
        self.me = instance
        self.asked = False
        self.optims: list[Value] = []
        self.schedules: list[Value] = []
        self.frozen: list[tuple[Leaf, bool]] = []

    def attribute(self, m: Machine, name: str) -> Value:
        if name in SILENT:
            return BuiltIn(name, lambda call: NONE)
        if name == "automatic_optimization":
            return TRUE
        if name in MOVING:
            return m.unknown(f"self.{name}", fixed=False)
        if name == "trainer":
            return RunningTrainer()
        if name == "all_gather":
            return BuiltIn(name, lambda call: m.unknown("gathered", data=True, fixed=False))
        return Module.attribute(self, m, name)

    # -- what the program configures

    def _configure(self, m: Machine) -> None:
        if self.asked:
            return
        self.asked = True
        method = method_of(self.me, "configure_optimizers")
        if method is None:
            self.optims = [Unknown(("optimizers of", self.me.key), "optimizer")]
            return
        self._take(m, m.run_function(method, Call(m, [self.me])))

    def _take(self, m: Machine, given: Value) -> None:
        """One, several, a dict, or lists of optimizers and of schedules."""
        given = given.resolve(m)
        if isinstance(given, Dict):
            self._take(m, given.look("optimizer") or NONE)
            self._take_schedule(m, given.look("lr_scheduler") or NONE)
        elif isinstance(given, (List, Tuple)):
            halves = [value.resolve(m) for value in given.values]
            if len(halves) == 2 and all(isinstance(half, (List, Tuple)) for half in halves):
                self._take(m, halves[0])
                for schedule in halves[1].held():
                    self._take_schedule(m, schedule)
            else:
                for half in halves:
                    self._take(m, half)
        elif not isinstance(given, Constant):
            optimizer = optimizer_of(given)
            if optimizer is not None:
                m.attributes_of(optimizer)["toggle_model"] = BuiltIn(
                    "toggle_model", lambda call: Toggled(self, optimizer)
                )
            self.optims.append(given)

    def _take_schedule(self, m: Machine, given: Value) -> None:
        given = given.resolve(m)
        if isinstance(given, Dict):
            given = given.look("scheduler") or NONE
        if isinstance(given, (Scheduler, Unknown)):
            self.schedules.append(given)

    @visible
    def optimizers(self, call: Call) -> Value:
        self._configure(call.m)
        return self.optims[0] if len(self.optims) == 1 else List(list(self.optims))

    @visible
    def lr_schedulers(self, call: Call) -> Value:
        self._configure(call.m)
        if not self.schedules:
            return NONE
        return self.schedules[0] if len(self.schedules) == 1 else List(list(self.schedules))

    # -- what it calls

    @visible
    def manual_backward(self, call: Call) -> Value:
        credit(call.m, call.argument(0, "loss") or NONE, retains=retains(call))
        return NONE

    @visible
    def clip_gradients(self, call: Call) -> Value:
        m = call.m
        optimizer = as_optimizer(m, call.argument(0, "optimizer") or NONE)
        if optimizer is not None and optimizer.owner.known:
            params = Params(tuple(optimizer.owner.leaves), optimizer.text)
            clip(m, params, call.argument(1, "gradient_clip_val"), aware=True)
        return NONE

    @visible
    def toggle_optimizer(self, call: Call) -> Value:
        optimizer = optimizer_of((call.argument(0, "optimizer") or NONE).resolve(call.m))
        if optimizer is not None:
            self.toggle(call.m, optimizer)
        return NONE

    @visible
    def untoggle_optimizer(self, call: Call) -> Value:
        self.untoggle(call.m)
        return NONE

    def toggle(self, m: Machine, optimizer: Optimizer) -> None:
        """Freezes what the other optimizers own and this one does not."""
        m.must_be_sure()
        self._configure(m)
        own = set(atoms(optimizer.owner.leaves))
        for other in self.optims:
            of = optimizer_of(other)
            for leaf in atoms(of.owner.leaves) if of is not None else ():
                if leaf not in own:
                    self.frozen.append((leaf, leaf.requires_grad))
                    leaf.requires_grad = False

    def untoggle(self, m: Machine) -> None:
        m.must_be_sure()
        while self.frozen:
            leaf, before = self.frozen.pop()
            leaf.requires_grad = before

    @visible
    def freeze(self, call: Call) -> Value:
        return self.requires_grad_(Call(call.m, [Constant(False)]))

    @visible
    def unfreeze(self, call: Call) -> Value:
        return self.requires_grad_(Call(call.m, [Constant(True)]))

    # -- what calls it

    def drive(self, m: Machine, name: str) -> bool:
        if name not in HOOKS:
            return False
        self.fit(m, None)
        return True

    def fit(self, m: Machine, loader: Value | None) -> None:
        step = method_of(self.me, "training_step")
        if step is None or not self._by_hand(m):
            return

        def on_batch(number: Constant, batch: Value) -> None:
            self._hook(m, "on_train_batch_start", batch, number)
            call_with(m, self.me, step, batch, number)
            self._hook(m, "on_train_batch_end", NONE, batch, number)

        self._hook(m, "on_train_start")
        drive(
            m,
            step.code,
            on_batch,
            loader=loader,
            before=lambda: self._hook(m, "on_train_epoch_start"),
            after=lambda: self._hook(m, "on_train_epoch_end"),
        )
        self._hook(m, "on_train_end")

    def _by_hand(self, m: Machine) -> bool:
        answer = self.me.attribute(m, "automatic_optimization").truth(m)
        return not (m.ask(answer) if isinstance(answer, Condition) else answer)

    def _hook(self, m: Machine, name: str, *args: Value) -> None:
        method = method_of(self.me, name)
        if method is not None:
            call_with(m, self.me, method, *args)


class Toggled(StandIn):
    """with optimizer.toggle_model()."""

    __slots__ = ("of", "optimizer")

    def __init__(self, of: LightningModule, optimizer: Optimizer) -> None:
        self.of = of
        self.optimizer = optimizer

    def enter(self, m: Machine) -> Value:
        self.of.toggle(m, self.optimizer)
        return NONE

    def leave(self, m: Machine) -> None:
        self.of.untoggle(m)


class RunningTrainer(StandIn):
    """self.trainer: where training is now."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return "self.trainer"

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "is_last_batch" and m.loops:
            return Constant(m.loops[-1].index == m.loops[-1].rounds - 1)
        if name in MOVING or name == "is_last_batch":
            return m.unknown(f"{self.text}.{name}", fixed=False)
        return m.unknown(f"{self.text}.{name}", fixed=True)


class LightningTrainer(StandIn):
    """Trainer: fit() calls what a module says of a batch."""

    __slots__ = ()

    @visible
    def fit(self, call: Call) -> Value:
        model = (call.argument(0, "model") or NONE).resolve(call.m)
        half = model.native if isinstance(model, Instance) else None
        if isinstance(half, LightningModule):
            loader = call.argument(1, "train_dataloaders")
            half.fit(call.m, loader.resolve(call.m) if loader is not None else None)
        return NONE


class PlainBase(StandIn):
    """A base class that brings nothing of a network with it."""

    __slots__ = ()


def plain(name: str) -> LibraryClass:
    return LibraryClass(name, lambda call: PlainBase(), half=lambda instance, call: PlainBase())


def _half(instance: Instance, call: Call) -> Value:
    return LightningModule(instance)


def find(m: Machine, name: str) -> Value | None:
    """What a name of Lightning's packages stands for."""
    last = name.rpartition(".")[2]
    if last == "LightningModule":
        return LibraryClass(name, lambda call: LightningModule(PlainBase()), half=_half)
    if last == "Trainer":
        return LibraryClass(
            name, lambda call: LightningTrainer(), half=lambda instance, call: LightningTrainer()
        )
    if last in ("LightningDataModule", "Callback"):
        return plain(name)
    if last == "seed_everything":
        return BuiltIn(name, lambda call: NONE)
    return fabric.find(m, name)
