"""torch.amp: autocast and gradient scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import List, Tuple
from gradkeeper.lint.interpreter.objects import Labelled, StandIn, visible
from gradkeeper.lint.interpreter.values import NONE, Call, Condition, Constant, Value
from gradkeeper.lint.libraries.nn import StateDict
from gradkeeper.lint.libraries.optim import Optimizer, ParamGroups, take_step
from gradkeeper.lint.libraries.provenance import Modes
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.libraries.tensors import as_tensor
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


class GradScaler(Labelled):
    """A scaler; `enabled` may be an option."""

    __slots__ = ("enabled", "named_by")

    def __init__(self, enabled: Value | None = None) -> None:
        self.enabled = enabled
        self.label = "scaler"
        self.named_by = False

    def named(self, m: Machine, name: str) -> None:
        if not self.named_by:
            self.named_by = True
            self.label = name

    def on(self, m: Machine) -> bool:
        answer = True if self.enabled is None else self.enabled.truth(m)
        return m.ask(answer) if isinstance(answer, Condition) else answer

    @visible
    def scale(self, call: Call) -> Value:
        m = call.m
        given = call.argument(0, "outputs") or NONE
        if isinstance(given, (List, Tuple)):
            return List([self._scaled(m, value) for value in given.values])
        return self._scaled(m, given)

    def _scaled(self, m: Machine, value: Value) -> Value:
        loss = as_tensor(m, value)
        if not self.on(m):
            return loss
        m.state(RunTape).note(m, ev.Scale, scaler=self.label)
        made = loss.like(m)
        made.scaler = self.label
        return made

    @visible
    def unscale_(self, call: Call) -> Value:
        m = call.m
        given = (call.argument(0, "optimizer") or NONE).resolve(m)
        tape = m.state(RunTape)
        of: Value | None = m.libraries.optimizer_in(m, given)
        if of is None:
            # A wrapper of the program's own: PyTorch asks it for its param_groups.
            groups = given.attribute(m, "param_groups").resolve(m)
            of = groups.of if isinstance(groups, ParamGroups) else None
        # Groups that somebody put together may be of any optimizer there is.
        owners = [of.owner] if isinstance(of, Optimizer) else list(tape.owners)
        for owner in owners if self.on(m) else ():
            tape.note(m, ev.Unscale, owner=owner, scaler=self.label)
        return NONE

    @visible
    def step(self, call: Call) -> Value:
        m = call.m
        given = (call.argument(0, "optimizer") or NONE).resolve(m)
        of = m.libraries.optimizer_in(m, given)
        name = self.label if self.on(m) else None
        if isinstance(of, Optimizer):
            take_step(m, of, call.argument(1), scaler=name)
        else:
            # A wrapper of the program's own: whatever it steps is stepped by the scaler.
            notes = m.state(RunTape).notes
            start = len(notes)
            given.attribute(m, "step").call(Call(m, call.args[1:]))
            for note in notes[start:]:
                if note.kind is ev.Step:
                    note.fields["scaler"] = name
        return m.unknown("loss", data=True, fixed=False)

    @visible
    def update(self, call: Call) -> Value:
        if self.on(call.m):
            call.m.state(RunTape).note(call.m, ev.Update, scaler=self.label)
        return NONE

    @visible
    def is_enabled(self, call: Call) -> Value:
        return self.enabled or Constant(True)

    @visible
    def get_scale(self, call: Call) -> Value:
        return ScaleFactor(self)

    @visible
    def state_dict(self, call: Call) -> Value:
        return StateDict()

    @visible
    def load_state_dict(self, call: Call) -> Value:
        return NONE


class ScaleFactor(StandIn):
    """scaler.get_scale(): a bound multiplied by it fits scaled gradients."""

    __slots__ = ("of",)

    def __init__(self, of: GradScaler) -> None:
        self.of = of

    @property
    def fixed(self) -> bool:
        return False

    def absorbs(self) -> bool:
        return False

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return self

    def truth(self, m: Machine) -> bool | Condition:
        return Condition("", self)


def make_scaler(call: Call) -> Value:
    enabled = call.kwargs.get("enabled")
    return GradScaler(enabled)


class Autocast(StandIn):
    """torch.autocast(...), as a context or a decorator."""

    __slots__ = ("before", "dtype", "enabled")

    def __init__(self, dtype: str | None, enabled: Value | None) -> None:
        self.dtype = dtype
        self.enabled = enabled
        self.before: list[str | None] = []

    def enter(self, m: Machine) -> Value:
        modes = m.state(Modes)
        self.before.append(modes.autocast)
        answer = True if self.enabled is None else self.enabled.truth(m)
        if isinstance(answer, Condition):
            answer = m.ask(answer)
        # Around a whole loop it is a blanket, often over weights that are half already.
        modes.autocast = self.dtype if answer and m.loops else None
        return self

    def leave(self, m: Machine) -> None:
        if self.before:
            m.state(Modes).autocast = self.before.pop()

    def call(self, call: Call) -> Value:
        return call.args[0] if call.args else NONE


def make_autocast(call: Call) -> Value:
    dtype = call.kwargs.get("dtype")
    device = call.argument(0, "device_type")
    name: str | None = None
    if dtype is not None:
        name = "float16" if dtype.text.endswith(("float16", "half")) else None
        if dtype.text.endswith("bfloat16"):
            name = "bfloat16"
    elif device is None or (isinstance(device, Constant) and device.value == "cuda"):
        name = "float16"
    enabled = call.kwargs.get("enabled")
    if enabled is None and isinstance(device, Constant) and isinstance(device.value, bool):
        enabled = device
    return Autocast(name, enabled)
