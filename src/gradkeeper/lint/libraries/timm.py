"""timm: scalers that take a whole step in one call, optimizers and schedules by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Tuple
from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Labelled,
    LibraryClass,
    StandIn,
    flatten,
    visible,
)
from gradkeeper.lint.interpreter.values import NONE, TRUE, Call, Condition, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import networks, optim, torch
from gradkeeper.lint.libraries.amp import GradScaler
from gradkeeper.lint.libraries.nn import StateDict, module_of
from gradkeeper.lint.libraries.optim import Scheduler, optimizer_of
from gradkeeper.lint.libraries.parameters import Params
from gradkeeper.lint.libraries.roles import as_module, as_optimizer, kind_of
from gradkeeper.lint.libraries.tensors import Tensor, as_tensor, credit

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

FLAGS = ("need_update", "update_grad")
"""The keyword that says whether this batch ends its window."""


class StepScaler(Labelled):
    """`scaler(loss, optimizer, ...)`: backward, unscale, clip, step and update in one call."""

    __slots__ = ("inner",)

    def __init__(self, inner: GradScaler | None) -> None:
        self.inner = inner
        self.label = "loss_scaler"

    def named(self, m: Machine, name: str) -> None:
        if self.label == "loss_scaler":
            self.label = name
            if self.inner is not None:
                self.inner.named(m, name)

    def call(self, call: Call) -> Value:
        return step_by(call, self.inner)

    @visible
    def state_dict(self, call: Call) -> Value:
        return StateDict()

    @visible
    def load_state_dict(self, call: Call) -> Value:
        return NONE


def step_by(call: Call, scaler: GradScaler | None) -> Value:
    m = call.m
    loss = as_tensor(m, call.argument(0, "loss") or NONE)
    given = call.argument(1, "optimizer") or NONE
    norm = m.unknown("norm", data=True, fixed=False)
    if scaler is not None:
        loss = as_tensor(m, scaler.scale(Call(m, [loss])))
    credit(m, loss)
    if not _ends_window(call):
        return norm
    optimizer = as_optimizer(m, given)
    if scaler is not None:
        scaler.unscale_(Call(m, [given]))
    bound, params = call.argument(2, "clip_grad"), call.kwargs.get("parameters")
    if bound is not None and params is not None and bound.is_none(m) is not True:
        torch.clip(m, params, bound, aware=True)
    if scaler is not None:
        scaler.step(Call(m, [given]))
        scaler.update(Call(m))
    elif optimizer is not None:
        optim.take_step(m, optimizer, None)
    return norm


def _ends_window(call: Call) -> bool:
    flag = next((call.kwargs[name] for name in FLAGS if name in call.kwargs), TRUE)
    answer = flag.truth(call.m)
    return call.m.ask(answer) if isinstance(answer, Condition) else answer


def called_as_scaler(m: Machine, what: Unknown, call: Call) -> bool:
    """Something that was handed in and is called with a loss, its optimizer and its parameters."""
    if not what.fixed or len(call.args) < 2 or not {"parameters", *FLAGS} & call.kwargs.keys():
        return False
    loss, given = call.args[0].resolve(m), call.args[1].resolve(m)
    steps = optimizer_of(given) is not None
    if isinstance(given, Unknown):
        steps = given.fixed and kind_of(m, given) in ("optimizer", "")
    return steps and (isinstance(loss, Tensor) or (isinstance(loss, Unknown) and not loss.fixed))


def step_by_unseen(call: Call) -> Value:
    """One that was not seen. It may zero too, unless the program does that itself."""
    if not any("zero_grad" in uses for uses in call.m.facts.uses.values()):
        call.m.doubt("a scaler that is not seen may zero gradients")
    return step_by(call, None)


# -- by name


def build_for(call: Call) -> Value:
    """create_optimizer(args, model), create_optimizer_v2(model, ...), param_groups first or not."""
    m = call.m
    given = [value.resolve(m) for value in call.values()]
    for element in given:
        module = module_of(element)
        if module is None and isinstance(element, Unknown) and kind_of(m, element) == "module":
            module = as_module(m, element)
        if module is not None:
            params: Value = Params(tuple(module.leaves()), "parameters", one_shot=False)
            return optim.build(Call(m, [params]), "Adam")
    for element in given:
        if isinstance(element, Params) or any(
            isinstance(part, Params) for part in flatten([element])
        ):
            return optim.build(Call(m, [element]), "Adam")
    return optim.build(Call(m), "Adam")


class StepSchedule(Scheduler):
    """timm's schedules are told the epoch or the update they are at."""

    __slots__ = ()

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "step_update":
            return BuiltIn(name, lambda call: NONE)
        return Scheduler.attribute(self, m, name)


def _schedule(call: Call) -> Value:
    for value in call.values():
        given = value.resolve(call.m)
        if optimizer_of(given) is not None:
            return StepSchedule(given, metric=True)
    return StepSchedule(NONE, metric=True)


def _create_schedule(call: Call) -> Value:
    return Tuple([_schedule(call), call.m.unknown("epochs")])


class Shadow(StandIn):
    """ModelEma: a copy that follows the trained network."""

    __slots__ = ()

    @visible
    def update(self, call: Call) -> Value:
        return NONE


def _clip(call: Call) -> Value:
    torch.clip(call.m, call.argument(0, "parameters") or NONE, call.argument(1, "value"))
    return NONE


OF_OPTIM = words("create_optimizer create_optimizer_v2 create_optimizer_with_params")


def find(m: Machine, name: str) -> Value | None:
    """What a name that begins with `timm` stands for."""
    last = name.rpartition(".")[2]
    if last == "NativeScaler":
        return LibraryClass(name, lambda call: StepScaler(GradScaler()))
    if last == "ApexScaler":
        return LibraryClass(name, lambda call: StepScaler(None))
    if last in OF_OPTIM:
        return BuiltIn(name, build_for)
    if name.startswith("timm.optim.") and last[:1].isupper():
        return LibraryClass(name, lambda call: optim.build(call, last))
    if last in ("create_scheduler", "create_scheduler_v2"):
        return BuiltIn(name, _create_schedule)
    if name.startswith("timm.scheduler.") and last[:1].isupper():
        return LibraryClass(name, _schedule)
    if last.startswith("ModelEma") and name.startswith("timm.utils."):
        return LibraryClass(name, lambda call: Shadow())
    if last == "dispatch_clip_grad":
        return BuiltIn(name, _clip)
    return networks.find(m, name)
