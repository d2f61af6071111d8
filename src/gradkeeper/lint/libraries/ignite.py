"""ignite: an Engine calls a function of the program for every batch, and handlers around it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.objects import BuiltIn, LibraryClass, StandIn, visible
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Count, Unknown, Value
from gradkeeper.lint.libraries.trainer_loops import code_of, drive
from gradkeeper.lint.libraries.transformers import hand_over

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


class EngineEvent(StandIn):
    """Events.ITERATION_COMPLETED, with or without a filter."""

    __slots__ = ("filtered", "name")

    def __init__(self, name: str, *, filtered: bool = False) -> None:
        self.name = name
        self.filtered = filtered

    @property
    def text(self) -> str:
        return f"Events.{self.name}"

    def call(self, call: Call) -> Value:
        return EngineEvent(self.name, filtered=True)

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return EngineEvent(self.name, filtered=True)


class Events(StandIn):
    __slots__ = ()

    def attribute(self, m: Machine, name: str) -> Value:
        return EngineEvent(name)


class IgniteEngine(StandIn):
    __slots__ = ("handlers", "iteration", "process")

    def __init__(self, process: Value | None) -> None:
        self.process = process
        self.handlers: list[tuple[EngineEvent, Value, list[Value]]] = []
        self.iteration: Constant = Constant(0)

    @property
    def text(self) -> str:
        return "trainer"

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "state":
            return EngineState(self)
        return StandIn.attribute(self, m, name)

    @visible
    def on(self, call: Call) -> Value:
        event = call.argument(0, "event_name")
        return Registration(self, event if isinstance(event, EngineEvent) else EngineEvent(""))

    @visible
    def add_event_handler(self, call: Call) -> Value:
        event, handler = call.argument(0, "event_name"), call.argument(1, "handler")
        if isinstance(event, EngineEvent) and handler is not None:
            self.handlers.append((event, handler, call.args[2:]))
        return NONE

    @visible
    def run(self, call: Call) -> Value:
        m, process = call.m, self.process
        node = code_of(process) if process is not None else None
        if process is None or node is None:
            return NONE
        loader = call.argument(0, "data")
        count = 0

        def on_batch(number: Constant, batch: Value) -> None:
            nonlocal count
            count += 1
            rounds = float(2 * m.plan.rounds)
            self.iteration = Count(count, rounds)
            self._fire(m, "ITERATION_STARTED")
            process.call(Call(m, [self, batch]))
            self._fire(m, "ITERATION_COMPLETED")

        self._fire(m, "STARTED")
        drive(
            m,
            node if isinstance(node, ast.AST) else m.node,
            on_batch,
            loader=loader.resolve(m) if loader is not None else None,
            before=lambda: self._fire(m, "EPOCH_STARTED"),
            after=lambda: self._fire(m, "EPOCH_COMPLETED"),
        )
        self._fire(m, "COMPLETED")
        return NONE

    def _fire(self, m: Machine, name: str) -> None:
        """Handlers of the program; one with a filter is called now and then, nobody knows when."""
        for event, handler, args in self.handlers:
            if event.name == name and not event.filtered and code_of(handler) is not None:
                handler.call(Call(m, [self, *args]))


class EngineState(StandIn):
    """engine.state: where training is now."""

    __slots__ = ("of",)

    def __init__(self, of: IgniteEngine) -> None:
        self.of = of

    @property
    def text(self) -> str:
        return "engine.state"

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "iteration":
            return self.of.iteration
        if name in ("epoch_length", "max_epochs", "dataloader"):
            return Unknown(("engine state", name), f"engine.state.{name}")
        return m.unknown(f"engine.state.{name}", fixed=False)


class Registration(StandIn):
    """@trainer.on(event)."""

    __slots__ = ("event", "of")

    def __init__(self, of: IgniteEngine, event: EngineEvent) -> None:
        self.of = of
        self.event = event

    def call(self, call: Call) -> Value:
        handler = call.argument(0, "handler") or NONE
        self.of.handlers.append((self.event, handler, []))
        return handler


def _supervised(call: Call) -> Value:
    hand_over(call)
    return IgniteEngine(None)


def find(m: Machine, name: str) -> Value | None:
    """What a name that begins with `ignite` stands for."""
    last = name.rpartition(".")[2]
    if name in ("ignite.engine.Engine", "ignite.engine.engine.Engine"):
        return LibraryClass(name, lambda call: IgniteEngine(call.argument(0, "process_function")))
    if name in ("ignite.engine.Events", "ignite.engine.events.Events"):
        return Events()
    if last in ("create_supervised_trainer", "create_supervised_evaluator"):
        return BuiltIn(name, _supervised)
    return None
