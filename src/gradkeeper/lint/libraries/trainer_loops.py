"""Frameworks that call the program: the loop is theirs, what it does with a batch is not."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.frames import Loop
from gradkeeper.lint.interpreter.objects import Class, Function, Instance, Method, StandIn
from gradkeeper.lint.interpreter.values import Call, Constant, Count, Unknown, Value

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

EPOCHS = 2
OnBatch = Callable[[Constant, Value], None]
"""What is done with the number of a batch, and with the batch."""


class Framework(StandIn):
    """The half of an object that a framework calls."""

    __slots__ = ()

    def drive(self, m: Machine, name: str) -> bool:
        """Calls this method of the object the way the framework does; False: it never would."""
        return False


def drive(
    m: Machine,
    node: ast.AST,
    on_batch: OnBatch,
    *,
    loader: Value | None = None,
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
) -> None:
    """A framework's own loop: a few epochs, in each of them some batches."""
    for _ in range(EPOCHS):
        if before is not None:
            before()
        _epoch(m, node, on_batch, loader)
        if after is not None:
            after()


def _epoch(m: Machine, node: ast.AST, on_batch: OnBatch, loader: Value | None) -> None:
    source = loader if loader is not None and not isinstance(loader, Constant) else None
    count = source.length(m) if source is not None and not isinstance(source, Unknown) else None
    known = count.value if isinstance(count, Constant) and count.reach is None else None
    exact = isinstance(known, int) and known <= max(m.plan.rounds, 8)
    rounds = known if exact and isinstance(known, int) else m.plan.rounds
    loop = Loop(node, "batches", rounds, exact, site=m.site(node), iterable=source)
    m.libraries.loop_begins(m, loop)
    m.loops.append(loop)
    elements = source.iterate(m) if source is not None else None
    try:
        for index in range(rounds):
            loop.index = index
            m.spend()
            m.libraries.round_begins(m, loop, None)
            number = Constant(index) if exact else Count(index, float(rounds))
            batch = next(elements, None) if elements is not None else None
            on_batch(number, batch or m.unknown("batch", element=True, data=True, fixed=False))
    finally:
        m.loops.remove(loop)
    m.node = node
    m.libraries.loop_ends(m, loop)


def method_of(instance: Value, name: str) -> Function | None:
    """A method that the program itself defines."""
    member = instance.cls.member(name) if isinstance(instance, Instance) else None
    return member if isinstance(member, Function) else None


def call_with(m: Machine, instance: Value, function: Function, *args: Value) -> Value:
    """Calls a method with as many of these arguments as it takes."""
    spec = function.code.args
    most = len(spec.posonlyargs) + len(spec.args) - 1
    given = list(args) if spec.vararg else list(args[: max(0, most)])
    return m.run_function(function, Call(m, [instance, *given]))


def code_of(value: Value) -> ast.AST | None:
    """Where a function of the program is defined."""
    if isinstance(value, Function):
        return value.code
    if isinstance(value, Method):
        return value.function.code
    if isinstance(value, Class):
        return value.code
    return None
