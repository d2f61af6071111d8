"""Expressions: from syntax to values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gradkeeper.lint.interpreter.containers import Collection, Dict, List, Set, Slice, Tuple
from gradkeeper.lint.interpreter.state import BudgetSpentError, State
from gradkeeper.lint.interpreter.values import (
    NONE,
    Call,
    Condition,
    Constant,
    Either,
    Test,
    Unknown,
    Value,
    either,
    negation,
    truth_value,
)

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.MatMult: "@",
}
UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
MOST_COMPREHENDED = 64


class Expressions(State):
    """The part of a machine that evaluates."""

    __slots__ = ()

    def evaluate(self, node: ast.expr) -> Value:
        kind = type(node)
        if kind is ast.Name:  # as often as everything else together
            frame = self.frame
            found = frame.names.get(node.id)  # type: ignore[attr-defined]
            if found is not None and not frame.outer:
                return found if type(found) is not Either else self._as_answered(found)
            return self.look_up(node.id)  # type: ignore[attr-defined]
        return HANDLERS[kind](self, node)

    def _not_known(self, node: ast.expr) -> Value:
        """What a later Python has that nothing is known of."""
        return self.unknown("an expression")

    def _as_answered(self, value: Value) -> Value:
        """One of two values, where it was asked since which of them it is."""
        while isinstance(value, Either):
            known = self.answered(value.condition)
            if known is None:
                break
            value = value.yes if known else value.no
        return value

    def _constant(self, node: ast.Constant) -> Value:
        made: Value | None = self.facts.constants.get(id(node))
        if made is None:
            value = node.value if node.value is not Ellipsis else None
            made = self.facts.constants[id(node)] = Constant(value)
        return made

    def look_up(self, name: str) -> Value:
        frame = self.frame
        found = frame.owner_of(name).get(name) if frame.outer else None
        if found is None:
            found = frame.find(name)
            if found is not None:
                return found
            found = self.whole.import_now(frame, name)
        if found is None:
            found = self.whole.define_now(frame, name)
        if found is None:
            found = self.libraries.builtin(self.whole, name)
        if found is None and name not in self.facts.assigned:
            found = self.whole.starred(frame, name)
        if found is None:
            # Where a statement sets it that was not worth running, it is no option.
            fixed = name not in self.facts.assigned
            found = Unknown(self.facts.key_of(("name", self.frame.file, name)), name, fixed)
        return found

    def _attribute(self, node: ast.Attribute) -> Value:
        of = self.evaluate(node.value)
        before, self.node = self.node, node
        found = of.attribute(self.whole, node.attr)
        self.node = before
        return found

    def _subscript(self, node: ast.Subscript) -> Value:
        of = self.evaluate(node.value)
        return of.item(self.whole, self.evaluate(node.slice))

    def _slice(self, node: ast.Slice) -> Value:
        known: Value | None = self.facts.constants.get(id(node))
        if known is not None:
            return known
        parts = (node.lower, node.upper, node.step)
        made = Slice(*[self.evaluate(part) if part else NONE for part in parts])
        if all(part is None or id(part) in self.facts.constants for part in parts):
            self.facts.constants[id(node)] = made
        return made

    def _call(self, node: ast.Call) -> Value:
        self.operations += 1
        if self.operations > self.budget:
            raise BudgetSpentError
        what = self.evaluate(node.func)
        args: list[Value] = []
        open_ended = False
        for argument in node.args:
            if type(argument) is ast.Starred:
                more = self.evaluate(argument.value).resolve(self.whole)
                if more.endless():
                    open_ended = True
                    args.append(next(iter(more.iterate(self.whole)), NONE))
                else:
                    args.extend(list(more.iterate(self.whole))[:MOST_COMPREHENDED])
            else:
                args.append(self.evaluate(argument))
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
                continue
            value = value.resolve(self.whole)
            if isinstance(value, Dict):
                for key, given in value.values.values():
                    if isinstance(key, Constant) and isinstance(key.value, str):
                        kwargs.setdefault(key.value, given)
                open_ended = open_ended or value.open
            else:
                open_ended = True
        before, self.node = self.node, node
        result = what.call(Call(self.whole, args, kwargs, open_ended))
        self.node = before
        return result

    def call(self, what: Value, *args: Value, **kwargs: Value) -> Value:
        return what.call(Call(self.whole, list(args), kwargs))

    def _binary(self, node: ast.BinOp) -> Value:
        left = self.evaluate(node.left)
        right = self.evaluate(node.right)
        sign = SIGNS[type(node.op)]
        before, self.node = self.node, node
        result = self.combine(sign, left, right)
        self.node = before
        return result

    def combine(self, sign: str, left: Value, right: Value) -> Value:
        m = self.whole
        if right.absorbs() and not left.absorbs():
            return right.operate(m, sign, left, swapped=True)
        return left.operate(m, sign, right)

    def _unary(self, node: ast.UnaryOp) -> Value:
        known: Value | None = self.facts.constants.get(id(node))
        if known is not None:
            return known
        value = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            return truth_value(negation(value.truth(self.whole)))
        made = value.invert(self.whole, UNARY[type(node.op)])
        if type(made) is Constant and id(node.operand) in self.facts.constants:
            self.facts.constants[id(node)] = made  # -1
        return made

    def _boolean(self, node: ast.BoolOp) -> Value:
        """`a and b`, `a or b`: an open first half makes the whole depend on it."""
        wants = isinstance(node.op, ast.And)
        value = self.evaluate(node.values[0])
        for operand in node.values[1:]:
            answer = value.truth(self.whole)
            if isinstance(answer, Condition):
                known = self.answered(answer)
                if known is None and self.deciding:
                    known = self.ask(answer)
                if known is None:
                    other = self.evaluate(operand)
                    yes, no = (other, value) if wants else (value, other)
                    value = either(answer, yes, no, self.whole)
                    continue
                answer = known
            if answer != wants:
                return value
            value = self.evaluate(operand)
        return value

    def _compare(self, node: ast.Compare) -> Value:
        left = self.evaluate(node.left)
        result: Value = NONE
        for sign, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(right_node)
            answer = self._compared(sign, left, right)
            result = truth_value(answer)
            if answer is False:
                return result
            left = right
        return result

    def _compared(self, sign: ast.cmpop, left: Value, right: Value) -> bool | Condition:
        m = self.whole
        match sign:
            case ast.Eq():
                return _equal(m, left, right)
            case ast.NotEq():
                return negation(_equal(m, left, right))
            case ast.Lt():
                return left.compare(m, right)
            case ast.GtE():
                return negation(left.compare(m, right))
            case ast.Gt():
                return right.compare(m, left)
            case ast.LtE():
                return negation(right.compare(m, left))
            case ast.Is():
                return _same(m, left, right)
            case ast.IsNot():
                return negation(_same(m, left, right))
            case ast.In():
                return _contained(m, left, right)
            case _:
                return negation(_contained(m, left, right))

    def _conditional(self, node: ast.IfExp) -> Value:
        loud = self.facts.is_loud(node)
        answer = self.truth_of(node.test, loud=loud)
        if isinstance(answer, Condition):
            known = self.ask(answer) if loud else self.answered(answer)
            if known is None:
                with self.speculation(node):
                    yes, no = self.evaluate(node.body), self.evaluate(node.orelse)
                return either(answer, yes, no, self.whole)
            answer = known
        return self.evaluate(node.body if answer else node.orelse)

    def truth_of(self, test: ast.expr, *, loud: bool) -> bool | Condition:
        """What a test says. Where something loud depends on it, its halves are answered."""
        before, self.deciding = self.deciding, loud
        try:
            return self.evaluate(test).truth(self.whole)
        finally:
            self.deciding = before

    def _tuple(self, node: ast.Tuple) -> Value:
        return Tuple(self._elements(node.elts))

    def _list(self, node: ast.List) -> Value:
        values = self._elements(node.elts)
        return List(values, any(self._is_open(element) for element in node.elts))

    def _is_open(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Starred):
            return False
        return self.evaluate(node.value).endless()

    def _set(self, node: ast.Set) -> Value:
        return Set(self._elements(node.elts))

    def _elements(self, nodes: list[ast.expr]) -> list[Value]:
        found: list[Value] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                more = self.evaluate(node.value).resolve(self.whole)
                rounds = 1 if more.endless() else MOST_COMPREHENDED
                for place, element in enumerate(more.iterate(self.whole)):
                    if place >= rounds:
                        break
                    found.append(element)
            else:
                found.append(self.evaluate(node))
        return found

    def _dict(self, node: ast.Dict) -> Value:
        made = Dict()
        for key, value in zip(node.keys, node.values, strict=True):
            given = self.evaluate(value)
            if key is None:
                made.overlay(self.whole, given.resolve(self.whole))
            else:
                name = self.evaluate(key)
                if isinstance(name, Constant) and isinstance(name.value, str):
                    given.named(self.whole, name.value)
                made.set_item(self.whole, name, given)
        return made

    def _lambda(self, node: ast.Lambda) -> Value:
        return self.whole.define(node)

    def _joined(self, node: ast.JoinedStr) -> Value:
        parts: list[str] = []
        made_of: list[Value] = []
        for part in node.values:
            value = self.evaluate(part.value if isinstance(part, ast.FormattedValue) else part)
            if isinstance(value, Constant):
                parts.append(str(value.value))
            else:
                made_of.append(value)
        if made_of:
            return self.unknown(
                "a string", *[origin for origin in made_of if isinstance(origin, Unknown)]
            )
        return Constant("".join(parts))

    def _walrus(self, node: ast.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        self.whole.assign(node.target, value)
        return value

    def _await(self, node: ast.Await) -> Value:
        return self.evaluate(node.value)

    def _yield(self, node: ast.Yield) -> Value:
        value = self.evaluate(node.value) if node.value else NONE
        return self.whole.give(value)

    def _yield_from(self, node: ast.YieldFrom) -> Value:
        home = self.frame

        def hand_on(element: Value) -> bool:
            # Whoever runs now is the generator inside: this one does the yielding.
            frame, self.frame = self.frame, home
            self.whole.give(element)
            self.frame = frame
            return False

        self.evaluate(node.value).for_each(self.whole, hand_on)
        return NONE

    def _starred(self, node: ast.Starred) -> Value:
        return self.evaluate(node.value)

    # -- comprehensions

    def _list_comprehension(self, node: ast.ListComp) -> Value:
        found: list[Value] = []
        open_ended = self._comprehend(
            node.generators, lambda: found.append(self.evaluate(node.elt))
        )
        return List(found, open_ended)

    def _set_comprehension(self, node: ast.SetComp) -> Value:
        found: list[Value] = []
        self._comprehend(node.generators, lambda: found.append(self.evaluate(node.elt)))
        return Set(found)

    def _generator(self, node: ast.GeneratorExp) -> Value:
        found: list[Value] = []
        open_ended = self._comprehend(
            node.generators, lambda: found.append(self.evaluate(node.elt))
        )
        return OneShot(found, open_ended)

    def _dict_comprehension(self, node: ast.DictComp) -> Value:
        made = Dict()

        def take() -> None:
            made.set_item(self.whole, self.evaluate(node.key), self.evaluate(node.value))

        made.open = self._comprehend(node.generators, take) or made.open
        return made

    def _comprehend(self, generators: list[ast.comprehension], take: Callable[[], None]) -> bool:
        """Runs a comprehension in a scope of its own; True if it may give more than it gave."""
        frame = self.frame
        inner = type(frame)(
            {}, frame, frame.module, frame.function, frame.file, frame.home, frame.receiver
        )
        inner.yields = frame.yields
        self.frame = inner
        try:
            return self._generate(generators, 0, take)
        finally:
            self.frame = frame

    def _generate(
        self, generators: list[ast.comprehension], level: int, take: Callable[[], None]
    ) -> bool:
        if level == len(generators):
            take()
            return False
        generator = generators[level]
        iterable = self.evaluate(generator.iter).resolve(self.whole)
        most = 1 if iterable.endless() else MOST_COMPREHENDED
        open_ended = iterable.endless()
        count = 0

        def each(element: Value) -> bool:
            nonlocal open_ended, count
            self.spend()
            # A generator hands its elements out from a frame of its own.
            frame, self.frame = self.frame, home
            self.whole.assign(generator.target, element)
            count += 1
            if self._passes(generator.ifs):
                open_ended = self._generate(generators, level + 1, take) or open_ended
            self.frame = frame
            return count >= most

        home = self.frame
        home.names.pop("__filtered__", None)
        iterable.for_each(self.whole, each)
        return open_ended or "__filtered__" in home.names

    def _passes(self, tests: list[ast.expr]) -> bool:
        for test in tests:
            answer = self.truth_of(test, loud=False)
            if isinstance(answer, Condition):
                known = self.answered(answer)
                if known is None:
                    # Some pass, nobody knows which: this one stands for those that do.
                    self.frame.names["__filtered__"] = NONE
                    continue
                answer = known
            if not answer:
                return False
        return True


class OneShot(Collection):
    """A generator expression: its elements can be had once."""

    __slots__ = ("open", "used", "values")

    def __init__(self, values: list[Value], open: bool = False) -> None:
        self.values = values
        self.open = open
        self.used = False

    @property
    def text(self) -> str:
        return "a generator"

    def elements(self) -> list[Value]:
        return self.values

    def truth(self, m: Machine) -> bool | Condition:
        return True

    def iterate(self, m: Machine) -> Iterator[Value]:
        if self.used:
            m.libraries.used_up(m, self, "this loop")
            return
        self.used = True
        yield from tuple(self.values)

    def endless(self) -> bool:
        return False


def _equal(m: Machine, left: Value, right: Value) -> bool | Condition:
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right = right, left
    return left.equals(m, right)


def _contained(m: Machine, element: Value, container: Value) -> bool | Condition:
    answer = element.within(m, container)
    return container.contains(m, element) if answer is None else answer


def _same(m: Machine, left: Value, right: Value) -> bool | Condition:
    """`is`: of None every kind of value knows; of anything else only identity tells."""
    for operand, other in ((left, right), (right, left)):
        if isinstance(other, Constant) and other.value is None:
            return operand.is_none(m)
    if isinstance(left, Constant) and isinstance(right, Constant):
        return left.value is right.value
    if left.key == right.key:
        return True
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return Condition("is", left, right)
    if isinstance(left, Test) or isinstance(right, Test):
        return Condition("is", left, right)
    return False


HANDLERS: dict[type[ast.expr], Callable[[Any, Any], Value]] = {
    **dict.fromkeys(ast.expr.__subclasses__(), Expressions._not_known),
    ast.Constant: Expressions._constant,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.Call: Expressions._call,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.BoolOp: Expressions._boolean,
    ast.Compare: Expressions._compare,
    ast.IfExp: Expressions._conditional,
    ast.Tuple: Expressions._tuple,
    ast.List: Expressions._list,
    ast.Set: Expressions._set,
    ast.Dict: Expressions._dict,
    ast.Lambda: Expressions._lambda,
    ast.JoinedStr: Expressions._joined,
    ast.NamedExpr: Expressions._walrus,
    ast.Await: Expressions._await,
    ast.Yield: Expressions._yield,
    ast.YieldFrom: Expressions._yield_from,
    ast.Starred: Expressions._starred,
    ast.ListComp: Expressions._list_comprehension,
    ast.SetComp: Expressions._set_comprehension,
    ast.GeneratorExp: Expressions._generator,
    ast.DictComp: Expressions._dict_comprehension,
}
