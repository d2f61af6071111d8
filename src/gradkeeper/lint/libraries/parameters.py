"""model.parameters() and its like: which parameters a value stands for, told apart by name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Slice, Tuple
from gradkeeper.lint.interpreter.expressions import OneShot
from gradkeeper.lint.interpreter.objects import Generator, flatten
from gradkeeper.lint.interpreter.values import (
    NONE,
    Body,
    Call,
    Condition,
    Provenance,
    Unknown,
    Value,
    truth_value,
)
from gradkeeper.lint.libraries.leaves import Leaf, atoms, leaves_in
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.libraries.tensors import MOST_KNOWN, Param, Tensor
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


@dataclass(slots=True, eq=False)
class Params(Value):
    """model.parameters() and its like: a one-shot iterator, a list made of one, a filter of one."""

    leaves: tuple[Leaf, ...]
    label: str
    with_names: bool = False
    one_shot: bool = True
    used: bool = False
    whole: bool = True
    """All there is: nothing was left out under a condition that is not known."""

    @property
    def text(self) -> str:
        return self.label

    def sources(self) -> Provenance:
        return frozenset(self.leaves)

    def endless(self) -> bool:
        return False

    def truth(self, m: Machine) -> bool | Condition:
        return True

    def length(self, m: Machine) -> Value:
        return m.unknown(f"len({self.label})", self)

    def take(self, m: Machine, use: str) -> tuple[Leaf, ...]:
        """The parameters, once: what takes them from a used-up iterator gets none."""
        if self.one_shot:
            m.must_be_sure()  # `params if isinstance(params, list) else list(params)`
        if self.one_shot and self.used:
            m.state(RunTape).note(m, ev.Exhaust, use=use)
            return ()
        self.used = True
        return self.leaves

    def for_each(self, m: Machine, body: Body) -> None:
        """Runs the body for each group of parameters that its own conditions tell apart."""
        leaves = tuple(atoms(self.take(m, "this loop")))
        waiting: list[tuple[tuple[Leaf, ...], dict[Hashable, bool]]] = [(leaves, {})]
        rounds = 0
        while waiting and rounds < 16:
            group, answers = waiting.pop(0)
            if not group:
                continue
            rounds += 1
            element = Param(list(group), answers, waiting, self.label)
            if body(Tuple([ParamName(element), element]) if self.with_names else element):
                return

    def iterate(self, m: Machine) -> Iterator[Value]:
        leaves = list(atoms(self.take(m, "this loop")))
        if leaves:
            element = Param(leaves, {}, None, self.label)
            yield Tuple([ParamName(element), element]) if self.with_names else element

    def item(self, m: Machine, key: Value) -> Value:
        if isinstance(key, Slice):
            some = tuple(_in_slice(atoms(self.leaves), key.key))
            return Params(some, self.label, self.with_names, one_shot=False, whole=False)
        return Param(list(atoms(self.leaves)), {}, None, self.label)

    def attribute(self, m: Machine, name: str) -> Value:
        if name in ("append", "extend", "add", "update"):
            return _Growing(self)
        return Value.attribute(self, m, name)

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if sign == "+" and isinstance(other, Params):
            return Params((*self.leaves, *other.leaves), self.label, self.with_names, False)
        return Value.operate(self, m, sign, other, swapped=swapped)


def _in_slice(leaves: Iterable[Leaf], by: Hashable) -> Iterator[Leaf]:
    """What some of them may be: told apart, unless they were so often enough."""
    for leaf in leaves:
        known = leaf.known.get(by)
        if known is None and len(leaf.known) < MOST_KNOWN:
            yield leaf.split(by, both=False)[0]
        elif known is not False:
            yield leaf


@dataclass(frozen=True, slots=True, eq=False)
class _Growing(Value):
    of: Params

    def call(self, call: Call) -> Value:
        for argument in call.args:
            self.of.leaves = (*self.of.leaves, *leaves_in(argument.sources()))
        return NONE


@dataclass(frozen=True, slots=True, eq=False)
class ParamName(Value):
    """The name in named_parameters(): what is asked of it tells parameters apart."""

    of: Param

    @property
    def key(self) -> Hashable:
        return ("name of", self.of.key)

    @property
    def text(self) -> str:
        return "name"

    @property
    def fixed(self) -> bool:
        return False

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        """`"bias" in name`."""
        return self.of.decide(m, ("in", element.key), Condition("in", element, self))

    def equals(self, m: Machine, other: Value) -> bool | Condition:
        return self.of.decide(m, ("==", other.key), Condition("==", self, other))

    def within(self, m: Machine, container: Value) -> bool | Condition | None:
        """`name in names`."""
        return self.of.decide(m, ("within", container.key), Condition("in", self, container))

    def attribute(self, m: Machine, name: str) -> Value:
        return _NameMethod(self, name)

    def item(self, m: Machine, key: Value) -> Value:
        return self

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return m.unknown("a name", fixed=False)


@dataclass(frozen=True, slots=True, eq=False)
class _NameMethod(Value):
    of: ParamName
    name: str

    def call(self, call: Call) -> Value:
        m, first = call.m, (call.args[0] if call.args else NONE)
        if self.name in ("startswith", "endswith", "find", "count"):
            by = (self.name, first.key)
            return truth_value(self.of.of.decide(m, by, Condition(self.name, self.of, first)))
        if self.name in ("split", "replace", "lower", "strip"):
            return self.of
        return m.unknown("a name", fixed=False)


def parameters_in(m: Machine, value: Value, use: str) -> tuple[list[Leaf], bool]:
    """The parameters that a value stands for, and whether that is all of them.

    Uses up one-shot iterators, as whoever is given them does.
    """
    found: dict[Leaf, None] = {}
    whole = True
    given = value.resolve(m)
    for part in flatten([given]):
        if part is not given and isinstance(part, Params) and part.one_shot:
            # PyTorch refuses a list of iterators: nothing is used up, since nothing runs.
            found.update(dict.fromkeys(part.leaves))
        elif isinstance(part, Params):
            found.update(dict.fromkeys(part.take(m, use)))
            whole = whole and part.whole
        elif isinstance(part, OneShot):
            if part.used:
                m.libraries.used_up(m, part, use)
                break
            part.used = True
        elif isinstance(part, Unknown):
            leaves = leaves_in(part.sources())
            found.update(dict.fromkeys(leaves))
            whole = False
        elif isinstance(part, Generator):
            # `yield p` for some of them: what it leaves out under a condition is not known.
            found.update(dict.fromkeys(_yielded(m, part)))
            whole = False
        elif isinstance(part, (Param, Tensor)) or not tuple(part.held()):
            found.update(dict.fromkeys(leaves_in(part.sources())))
    return list(found), whole


def _yielded(m: Machine, generator: Generator) -> list[Leaf]:
    """The parameters that a generator of the program gives."""
    found: dict[Leaf, None] = {}

    def take(element: Value) -> bool:
        found.update(dict.fromkeys(leaves_in(element.sources())))
        return False

    generator.for_each(m, take)
    return list(found)
