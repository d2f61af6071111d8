"""Values that hold others: lists, tuples, sets, dicts, slices and ranges, with their methods.

The methods of strings are here too: some of them give lists.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.values import (
    MOST_ELEMENTS,
    NONE,
    NOTHING,
    Call,
    Condition,
    Constant,
    Count,
    Either,
    Gathered,
    Length,
    Provenance,
    Value,
    either,
)

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


@dataclass(slots=True, eq=False)
class TextMethod(Value):
    """A method of a string or a number."""

    of: Constant
    name: str

    def call(self, call: Call) -> Value:
        plain = [argument.value for argument in call.args if isinstance(argument, Constant)]
        if isinstance(self.of.value, str) and len(plain) == len(call.args) and not call.kwargs:
            if self.name in ("split", "join", "format") and len(self.of.value) > 1000:
                return call.m.unknown(f"{self.of.text}.{self.name}()")
            try:
                result = getattr(self.of.value, self.name)(*plain)
            except Exception:  # a method of a plain string: whatever it raises, it is not known
                return call.m.unknown(f"{self.of.text}.{self.name}()")
            if isinstance(result, (str, int, bool)):
                return Constant(result)
            if isinstance(result, list):
                return List([Constant(element) for element in result[:MOST_ELEMENTS]])
        return call.m.unknown(f"{self.of.text}.{self.name}()", *call.args)


class Collection(Value):
    """What lists, tuples, sets and dicts have in common."""

    __slots__ = ()

    def elements(self) -> list[Value]:
        return []

    def held(self) -> Iterable[Value]:
        return self.elements()

    @property
    def fixed(self) -> bool:
        return all(element.fixed for element in self.elements()[:8])

    def sources(self) -> Provenance:
        found: Provenance = NOTHING
        for own in self.elements()[:MOST_ELEMENTS]:
            found |= own.sources()
        return found

    def iterate(self, m: Machine) -> Iterator[Value]:
        yield from tuple(self.elements())

    def endless(self) -> bool:
        return False

    def truth(self, m: Machine) -> bool | Condition:
        return bool(self.elements())

    def length(self, m: Machine) -> Value:
        return Constant(len(self.elements()))

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        answers = [own.equals(m, element) for own in self.elements()[:MOST_ELEMENTS]]
        if True in answers:
            return True
        if all(answer is False for answer in answers):
            return False
        if all(isinstance(own, Constant) for own in self.elements()):
            # Equal lists that are written twice, or made again, ask the same question.
            return Condition("in", element, Tuple(list(self.elements())))
        return Condition("in", element, self)


def index_of(key: Value, size: int) -> int | None:
    """A known position in a sequence of this size."""
    if not isinstance(key, Constant) or not isinstance(key.value, int):
        return None
    place = key.value + size if key.value < 0 else key.value
    return place if 0 <= place < size else None


@dataclass(slots=True, eq=False)
class List(Collection):
    """A list. `open`: it may hold more elements of the kind of its last one."""

    values: list[Value] = field(default_factory=list)
    open: bool = False
    limit: float | None = None
    """How long it gets in a loop that is cut short."""
    lets_go: bool = False
    """A deque with a length: what was put in first is dropped."""

    @property
    def text(self) -> str:
        return f"[{', '.join(value.text for value in self.values[:3])}]"

    def elements(self) -> list[Value]:
        return self.values

    def iterate(self, m: Machine) -> Iterator[Value]:
        yield from tuple(self.values)
        while self.endless():
            yield self.values[-1]

    def endless(self) -> bool:
        return self.open and bool(self.values) and self.values[-1].recurs()

    def truth(self, m: Machine) -> bool | Condition:
        return True if self.values else (Condition("", self) if self.open else False)

    def item(self, m: Machine, key: Value) -> Value:
        if isinstance(key, Slice):
            return List(key.cut(self.values), self.open)
        place = index_of(key, len(self.values))
        if place is not None:
            return self.values[place]
        if not self.values:
            return m.unknown(f"{self.text}[{key.text}]", key)
        return any_of(m, self.values, key)

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        place = index_of(key, len(self.values))
        if place is not None:
            self.values[place] = value
        elif not isinstance(key, Slice):
            self.values.append(value)

    def length(self, m: Machine) -> Value:
        if self.open:
            return Length(m.plan.rounds, float(m.plan.rounds))
        if self.limit is not None:
            return Gathered(len(self.values), self.limit)
        return Constant(len(self.values))

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if sign == "+" and isinstance(other, Collection):
            mine, theirs = self.values, other.elements()
            joined = [*theirs, *mine] if swapped else [*mine, *theirs]
            return List(joined, self.open or getattr(other, "open", False))
        if sign == "*" and isinstance(other, Constant) and isinstance(other.value, int):
            if len(self.values) * other.value <= 4 * MOST_ELEMENTS:
                return List(self.values * other.value)
            return List(self.values * (4 * MOST_ELEMENTS // max(1, len(self.values))), True)
        return Value.operate(self, m, sign, other, swapped=swapped)

    def attribute(self, m: Machine, name: str) -> Value:
        return ListMethod(self, name)


def _doubt_method(m: Machine, kind: type, name: str, values: Iterable[Value]) -> None:
    """A program that works does not come here under these settings, unless with data alone: a table
    makes columns of the lists that it is given."""
    if not hasattr(kind, name) and any(value.takes_part() or value.absorbs() for value in values):
        m.doubt(f"a {kind.__name__} is asked for a method that it does not have")


def any_of(m: Machine, values: list[Value], key: Value) -> Value:
    """One element, nobody knows which: the same for the same key."""
    first = values[0]
    if len(values) == 1 or all(value.key == first.key for value in values[1:]):
        return first
    if not any(value.takes_part() for value in values):
        return m.unknown(f"{first.text}[{key.text}]", *values, key)
    # Things that do something when they are used: the first one stands for all.
    m.doubt("elements of a collection are asked for by keys that are not known")
    return first


@dataclass(slots=True, eq=False)
class ListMethod(Value):
    of: List
    name: str

    def call(self, call: Call) -> Value:
        m, values = call.m, self.of.values
        first = call.args[0] if call.args else NONE
        if self.name in ("append", "appendleft"):
            if len(values) < 4 * MOST_ELEMENTS:
                values.insert(len(values) if self.name == "append" else 0, self._as_element(first))
            self.of.limit = m.counted(Constant(len(values))).reach
            first.is_kept(m, [] if self.of.lets_go else values)
            return NONE
        if self.name in ("extend", "__iadd__", "__init__"):
            self._extend(m, call.args[0] if call.args else Tuple([]))
            return NONE
        if self.name == "insert":
            at = index_of(first, len(values) + 1)
            values.insert(at or 0, self._as_element(call.argument(1) or NONE))
            return NONE
        if self.name in ("pop", "popleft"):
            last = len(values) - 1 if self.name == "pop" else 0
            place = index_of(first, len(values)) if call.args else last
            if values and place is not None and place >= 0:
                return values.pop(place)
            return m.unknown(f"{self.of.text}.pop()", self.of)
        if self.name == "clear":
            values.clear()
            return NONE
        if self.name == "copy":
            return List(list(values), self.of.open)
        if self.name == "remove":
            for place, value in enumerate(values):
                if value.equals(m, first) is True:
                    del values[place]
                    break
            return NONE
        if self.name in ("sort", "reverse"):
            return NONE
        _doubt_method(m, list, self.name, self.of.values)
        return m.unknown(f"{self.of.text}.{self.name}()", self.of, *call.args)

    def _as_element(self, value: Value) -> Value:
        """A list that holds itself, mostly a slip, would be walked through for ever."""
        if value is self.of or (value.HOLDS and any(own is self.of for own in value.held())):
            return List(list(self.of.values), self.of.open)
        return value

    def _extend(self, m: Machine, more: Value) -> None:
        if more.endless():
            self.of.values.append(next(iter(more.iterate(m)), NONE))
            self.of.open = True
            return
        for element in more.iterate(m):
            if len(self.of.values) < 4 * MOST_ELEMENTS:
                self.of.values.append(element)


@dataclass(slots=True, eq=False)
class Tuple(Collection):
    values: list[Value] = field(default_factory=list)

    @property
    def key(self) -> Hashable:
        return ("tuple", *(value.key for value in self.values))

    @property
    def text(self) -> str:
        return f"({', '.join(value.text for value in self.values[:3])})"

    def elements(self) -> list[Value]:
        return self.values

    def item(self, m: Machine, key: Value) -> Value:
        if isinstance(key, Slice):
            return Tuple(key.cut(self.values))
        place = index_of(key, len(self.values))
        if place is not None:
            return self.values[place]
        if not self.values:
            return m.unknown(f"{self.text}[{key.text}]", key)
        return any_of(m, self.values, key)

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if sign == "+" and isinstance(other, Collection):
            mine, theirs = self.values, other.elements()
            return Tuple([*theirs, *mine] if swapped else [*mine, *theirs])
        if sign == "*" and isinstance(other, Constant) and isinstance(other.value, int):
            return Tuple((self.values * other.value)[: 4 * MOST_ELEMENTS])
        return Value.operate(self, m, sign, other, swapped=swapped)


@dataclass(slots=True, eq=False)
class Set(Collection):
    values: list[Value] = field(default_factory=list)

    def elements(self) -> list[Value]:
        return self.values

    def attribute(self, m: Machine, name: str) -> Value:
        return SetMethod(self, name)


@dataclass(slots=True, eq=False)
class SetMethod(Value):
    of: Set
    name: str

    def call(self, call: Call) -> Value:
        if self.name == "add" and call.args:
            if all(value.key != call.args[0].key for value in self.of.values):
                self.of.values.append(call.args[0])
            return NONE
        if self.name == "update":
            for argument in call.args:
                self.of.values.extend(argument.held())
            return NONE
        return call.m.unknown(f"set.{self.name}()", self.of, *call.args)


@dataclass(slots=True, eq=False)
class Dict(Collection):
    """A dict by keys of values; `open`: it may hold others."""

    values: dict[Hashable, tuple[Value, Value]] = field(default_factory=dict)
    open: bool = False

    @staticmethod
    def of(pairs: Iterable[tuple[Value, Value]]) -> Dict:
        return Dict({key.key: (key, value) for key, value in pairs})

    @property
    def text(self) -> str:
        return "a dict"

    def elements(self) -> list[Value]:
        return [key for key, _ in self.values.values()]

    def held(self) -> Iterable[Value]:
        return [value for _, value in self.values.values()]

    def sources(self) -> Provenance:
        found: Provenance = NOTHING
        for _, value in self.values.values():
            found |= value.sources()
        return found

    def truth(self, m: Machine) -> bool | Condition:
        return True if self.values else (Condition("", self) if self.open else False)

    def look(self, name: str) -> Value | None:
        found = self.values.get(("constant", "str", name))
        return found[1] if found else None

    def item(self, m: Machine, key: Value) -> Value:
        found = self.values.get(key.key)
        if found is not None:
            return found[1]
        others = list(self.held())
        if isinstance(key, Constant) or not others:
            made = m.unknown(f"{self.text}[{key.text}]", key, *others[:4])
            if self.open and key.fixed:
                self.values[key.key] = (key, made)
            return made
        if key.fixed and not self.open and any(v.acts(m) or v.takes_part() for v in others):
            return self._chosen(m, key)
        return any_of(m, others, key)

    def _chosen(self, m: Machine, key: Value) -> Value:
        """One of several functions or optimizers, by a setting: `STEPS[args.mode]`."""
        (_, chosen), *others = reversed(self.values.values())
        for name, value in others[: Either.DEEPEST]:
            chosen = either(Condition("==", key, name), value, chosen, m)
        return chosen

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        if not isinstance(key, Constant):
            self.open = True
        m.write(self.values, key.key, (key, value))
        value.is_kept(m, [])

    def overlay(self, m: Machine, other: Value) -> None:
        """What `update` or `**` lays over it. Where not all of that is known, it may hold any of
        the keys here: what is written as a constant is then a default, and no fact."""
        known = other.values if isinstance(other, Dict) else {}
        self.values.update(known)
        if isinstance(other, Dict) and not other.open:
            return
        self.open = True
        for held, (key, value) in list(self.values.items()):
            if held not in known and isinstance(value, Constant):
                m.write(self.values, held, (key, other.item(m, key)))

    def length(self, m: Machine) -> Value:
        if self.open:
            return m.unknown("len(a dict)", self)
        return Constant(len(self.values))

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        if element.key in self.values:
            return True
        if self.open or not isinstance(element, Constant):
            return Condition("in", element, self)
        return False

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if sign == "|" and isinstance(other, Dict):
            return Dict(self.values | other.values, self.open or other.open)
        return Value.operate(self, m, sign, other, swapped=swapped)

    def attribute(self, m: Machine, name: str) -> Value:
        return DictMethod(self, name)


@dataclass(slots=True, eq=False)
class DictMethod(Value):
    of: Dict
    name: str

    def call(self, call: Call) -> Value:
        m, of = call.m, self.of
        if self.name == "values":
            return List(list(of.held()), of.open)
        if self.name == "keys":
            return List(of.elements(), of.open)
        if self.name == "items":
            return List([Tuple([key, value]) for key, value in of.values.values()], of.open)
        if self.name in ("get", "pop", "setdefault") and call.args:
            return self._get(call)
        if self.name in ("update", "__init__"):
            for argument in call.args:
                of.overlay(m, argument.resolve(m))
            for name, value in call.kwargs.items():
                of.values[("constant", "str", name)] = (Constant(name), value)
            return NONE
        if self.name == "copy":
            return Dict(dict(of.values), of.open)
        if self.name == "clear":
            of.values.clear()
            return NONE
        _doubt_method(m, dict, self.name, of.held())
        return m.unknown(f"dict.{self.name}()", of, *call.args)

    def _get(self, call: Call) -> Value:
        m, of, key = call.m, self.of, call.args[0]
        found = of.values.get(key.key)
        if found is not None:
            if self.name == "pop":
                del of.values[key.key]
            return found[1]
        default = call.argument(1) or NONE
        if self.name == "setdefault":
            of.set_item(m, key, default)
            return default
        if of.open or not isinstance(key, Constant):
            return of.item(m, key)
        return default


@dataclass(slots=True, eq=False)
class Slice(Value):
    lower: Value
    upper: Value
    step: Value

    @property
    def key(self) -> Hashable:
        return ("slice", self.lower.key, self.upper.key, self.step.key)

    @property
    def text(self) -> str:
        return ":"

    @property
    def fixed(self) -> bool:
        return self.lower.fixed and self.upper.fixed

    @property
    def takes_all(self) -> bool:
        """`[:]`."""
        ends = (self.lower, self.upper)
        return all(isinstance(end, Constant) and end.value is None for end in ends)

    def cut(self, values: list[Value]) -> list[Value]:
        """The elements, where all three bounds are known; else all of them."""
        rows = self.rows(len(values))
        return list(values) if rows is None else [values[row] for row in rows]

    def rows(self, size: int) -> range | None:
        """Which of so many elements it takes; None where a bound is not known."""
        known: list[int | None] = []
        for bound in (self.lower, self.upper, self.step):
            plain = bound.value if isinstance(bound, Constant) else ""
            if plain is not None and not isinstance(plain, int):
                return None
            known.append(plain)
        return None if known[2] == 0 else range(size)[known[0] : known[1] : known[2]]


@dataclass(slots=True, eq=False)
class Range(Value):
    """range(): of known bounds, or of a number that is not known."""

    start: int
    stop: int
    step: int
    limit: float | None = None
    """Set where the bounds count rounds themselves."""

    @property
    def text(self) -> str:
        return f"range({self.stop})"

    def span(self) -> range:
        return range(self.start, self.stop, self.step)

    def iterate(self, m: Machine) -> Iterator[Value]:
        span = self.span()
        for place, number in enumerate(span):
            round_number = m.round_number(place, self)
            if round_number.reach is None:
                yield Constant(span[round_number.value])  # type: ignore[index]
            else:
                limit = self.start + round_number.reach * abs(self.step)
                yield Count(number, limit, float(span[-1]))

    def endless(self) -> bool:
        return False

    def length(self, m: Machine) -> Value:
        size = len(self.span())
        return Constant(size) if self.limit is None else Count(size, self.limit)

    def truth(self, m: Machine) -> bool | Condition:
        return bool(self.span())

    def item(self, m: Machine, key: Value) -> Value:
        place = index_of(key, len(self.span()))
        return m.unknown(self.text) if place is None else Constant(self.span()[place])
