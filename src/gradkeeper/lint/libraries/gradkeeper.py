"""gradkeeper's own engine: a window credits, and settles when its block ends.

What a loop by hand left behind inside a window (backward, step, zero_grad) is then judged as usual:
the gradients are spent twice, before they are normalised, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Dict
from gradkeeper.lint.interpreter.objects import BuiltIn, Labelled, LibraryClass, StandIn, visible
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Unknown, Value
from gradkeeper.lint.libraries.nn import StateDict, zero
from gradkeeper.lint.libraries.optim import Optimizer, take_step
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.libraries.tensors import as_tensor, credit
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


class GradkeeperEngine(Labelled):
    """Engine(model, optimizer, ...), or both as dicts by owner."""

    __slots__ = ("optimizers",)

    def __init__(self, optimizers: dict[str, Optimizer]) -> None:
        self.optimizers = optimizers
        self.label = "engine"

    def _owner(self, owner: Value | None) -> Optimizer | None:
        if isinstance(owner, Constant) and isinstance(owner.value, str):
            return self.optimizers.get(owner.value)
        return next(iter(self.optimizers.values()), None)

    @visible
    def windows(self, call: Call) -> Value:
        size = call.argument(1, "size") or Constant(1)
        return Windows(self, call.argument(0, "loader") or NONE, size)

    @visible
    def batches(self, call: Call) -> Value:
        size = call.argument(1, "size") or Constant(1)
        return Groups(call.argument(0, "loader") or NONE, size)

    @visible
    def window(self, call: Call) -> Value:
        return EngineWindow(self._owner(call.argument(0, "owner")), None)

    @visible
    def resume(self, call: Call) -> Value:
        return call.m.unknown(f"{self.label}.resume()", fixed=True)

    @visible
    def save(self, call: Call) -> Value:
        return NONE

    @visible
    def track(self, call: Call) -> Value:
        return NONE

    @visible
    def state_dict(self, call: Call) -> Value:
        return StateDict()


class Group(StandIn):
    """Micro-batches that belong together; may be gone through more than once."""

    __slots__ = ("loader", "size")

    def __init__(self, loader: Value, size: Value) -> None:
        self.loader = loader
        self.size = size

    def _rounds(self, m: Machine) -> int:
        number = m.known_number(self.size)
        return int(number) if number is not None else m.number(self.size)

    def iterate(self, m: Machine) -> Iterator[Value]:
        for _ in range(max(1, self._rounds(m))):
            yield m.unknown("a micro-batch", element=True, data=True, fixed=False)

    def endless(self) -> bool:
        return False

    def length(self, m: Machine) -> Value:
        return Constant(self._rounds(m))


class Groups(StandIn):
    """engine.batches(): one group after the other."""

    __slots__ = ("loader", "size")

    def __init__(self, loader: Value, size: Value) -> None:
        self.loader = loader
        self.size = size

    def iterate(self, m: Machine) -> Iterator[Value]:
        while True:
            yield Group(self.loader, self.size)


class Windows(StandIn):
    """engine.windows(): one window after the other."""

    __slots__ = ("engine", "loader", "size")

    def __init__(self, engine: GradkeeperEngine, loader: Value, size: Value) -> None:
        self.engine = engine
        self.loader = loader
        self.size = size

    def iterate(self, m: Machine) -> Iterator[Value]:
        while True:
            yield EngineWindow(self.engine._owner(None), Group(self.loader, self.size))


class EngineWindow(StandIn):
    """with window: what its own backward credits is spent when the block ends, once."""

    __slots__ = ("closures", "credited", "group", "optimizer")

    def __init__(self, optimizer: Optimizer | None, group: Group | None) -> None:
        self.optimizer = optimizer
        self.group = group
        self.credited = False
        self.closures: list[Value] = []

    def iterate(self, m: Machine) -> Iterator[Value]:
        if self.group is not None:
            yield from self.group.iterate(m)

    def endless(self) -> bool:
        return False

    def length(self, m: Machine) -> Value:
        return self.group.length(m) if self.group is not None else Constant(0)

    @visible
    def backward(self, call: Call) -> Value:
        m = call.m
        loss = as_tensor(m, call.argument(0, "loss") or NONE)
        if self.optimizer is not None and self.optimizer.owner.known:
            own = frozenset(self.optimizer.owner.leaves)
            kept = loss.like(m)
            kept.flow = (loss.flow & own) or loss.flow
            loss = kept
        self.credited = True
        credit(m, loss)
        return NONE

    @visible
    def closure(self, call: Call) -> Value:
        self.closures += call.args[:1]
        return call.args[0] if call.args else NONE

    def attribute(self, m: Machine, name: str) -> Value:
        if name in ("loss", "grad_norm", "stepped", "reason", "step", "index"):
            return m.unknown(f"window.{name}", data=True, fixed=False)
        if name == "__exit__":
            return BuiltIn(name, lambda call: NONE)
        return StandIn.attribute(self, m, name)

    def enter(self, m: Machine) -> Value:
        return self

    def leave(self, m: Machine) -> None:
        """Normalises, steps, zeroes: in that order, and only what it credited itself."""
        for closure in self.closures:
            closure.call(Call(m))
        if self.optimizer is None:
            return
        owner = self.optimizer.owner
        targets = tuple(owner.leaves) if owner.known else (owner,)
        if self.credited:
            m.state(RunTape).note(m, ev.Adjust, targets)
            take_step(m, self.optimizer, None)
        zero(m, targets, None)  # type: ignore[arg-type]
        self.credited = False
        self.closures = []


def _make(call: Call) -> Value:
    m = call.m
    given = (call.argument(1, "optimizer") or NONE).resolve(m)
    found: dict[str, Optimizer] = {}
    pairs = [(Constant(""), given)]
    if isinstance(given, Dict):
        pairs = [(key, value) for key, value in given.values.values() if isinstance(key, Constant)]
    for key, item in pairs:
        optimizer = m.libraries.optimizer_in(m, item)
        if isinstance(optimizer, Optimizer):
            found[str(key.value)] = optimizer
    return (
        GradkeeperEngine(found)
        if found
        else Unknown(m.facts.key_of(("engine", id(m.node))), "engine")
    )


def find(m: Machine, name: str) -> Value | None:
    if name in ("gradkeeper.Engine", "gradkeeper.engine.Engine"):
        return LibraryClass(name, _make)
    return None
