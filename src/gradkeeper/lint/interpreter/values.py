"""What an expression can stand for. Each kind of value answers for itself.

`Value` is the whole interface: truth, attributes, items, calls, iteration, operators, `with`.
The base class answers "not known" to every question, so a kind of value implements only what it
knows better. Nothing here knows torch; stand-ins for libraries are further kinds of values.

Most kinds are never changed once they are made. They are not frozen dataclasses all the same: to
make one of those takes three times as long, and a rehearsal does little else.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

Sources = frozenset[Hashable]
"""What a value was made of, in tokens that only the libraries understand."""
NOTHING: Sources = frozenset()
Plain = int | float | complex | str | bytes | bool | None
Body = Callable[["Value"], bool]
"""What a loop does with each element; True ends it."""

MOST_ELEMENTS = 64
"""Of a known collection that a loop goes through."""


class Value:
    """The base of all kinds: it knows nothing, and never raises."""

    __slots__ = ()
    HOLDS: ClassVar[bool] = False
    """Whether values of this kind may hold others: cheaper to ask than for those they hold."""

    def __init_subclass__(cls) -> None:
        cls.HOLDS = cls.held is not Value.held

    @property
    def key(self) -> Hashable:
        """Equal keys: the same value, as far as one can tell."""
        return ("object", id(self))

    @property
    def text(self) -> str:
        """How a person would write it."""
        return "a value"

    @property
    def fixed(self) -> bool:
        """Settled before training begins: an option rather than data."""
        return True

    def sources(self) -> Sources:
        return NOTHING

    def named(self, m: Machine, name: str) -> None:
        """It was assigned to a variable of this name."""

    def truth(self, m: Machine) -> bool | Condition:
        return True

    def attribute(self, m: Machine, name: str) -> Value:
        return m.attribute_of(self, name)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        m.write(m.attributes_of(self), name, value)

    def item(self, m: Machine, key: Value) -> Value:
        return m.unknown(f"{self.text}[{key.text}]", self, key)

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        """What is put into something unknown stays unknown."""
        m.escape(value)

    def call(self, call: Call) -> Value:
        return call.unseen(self)

    def iterate(self, m: Machine) -> Iterator[Value]:
        """Its elements, as many as are known; an unknown one gives what a loop asks for."""
        while True:
            yield m.unknown(f"{self.text}[i]", self, element=True)

    def for_each(self, m: Machine, body: Body) -> None:
        for element in self.iterate(m):
            if body(element):
                return

    def endless(self) -> bool:
        """Its length is not known: whoever loops over it decides when to stop."""
        return True

    def length(self, m: Machine) -> Value:
        return m.unknown(f"len({self.text})", self)

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        left, right = (other, self) if swapped else (self, other)
        if sign == "%":
            return m.remainder(left, right)
        text = f"{m.written(left)} {sign} {m.written(right)}"
        return m.unknown(text, left, right, computed=True)

    def is_kept(self, m: Machine, among: list[Value]) -> None:
        """A list or a dict was given it, and has these elements now."""

    def takes_part(self) -> bool:
        """It does something when it is used: one of several must not be taken for another."""
        return False

    def recurs(self) -> bool:
        """In a collection of unknown length, it may stand for the elements that follow it."""
        return True

    def absorbs(self) -> bool:
        """Combined with something unknown it stays what it is, as a tensor does."""
        return False

    def invert(self, m: Machine, sign: str) -> Value:
        """The operators with one operand: `-`, `+`, `~`."""
        return m.unknown(f"{sign}{self.text}", self)

    def augment(self, m: Machine, sign: str, change: Value) -> Value | None:
        """`self += change` where that changes the value in place; None: an ordinary operator."""
        return None

    def delete_attribute(self, m: Machine, name: str) -> None:
        m.attributes_of(self).pop(name, None)

    def asked_number(self) -> Value | None:
        """For a range of unknown length: the number that says how long."""
        return None

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        return Condition("in", element, self)

    def within(self, m: Machine, container: Value) -> bool | Condition | None:
        """`self in container`, where the element knows better than the container."""
        return None

    def equals(self, m: Machine, other: Value) -> bool | Condition:
        if self.key == other.key:
            return True
        return Condition("==", self, other)

    def compare(self, m: Machine, other: Value) -> bool | Condition:
        """`self < other`."""
        return Condition("<", self, other)

    def compared_by(self, m: Machine, other: Value) -> bool | Condition:
        """`other < self`, where other is a plain number."""
        return Condition("<", other, self)

    def is_none(self, m: Machine) -> bool | Condition:
        return False

    def enter(self, m: Machine) -> Value:
        """What `with` binds; the machine calls `leave` afterwards."""
        return self

    def leave(self, m: Machine) -> None:
        pass

    def around(self, m: Machine, name: str, method: Value) -> Value:
        """A method of a program's class that stands in the place of a library's."""
        return method

    def held(self) -> Iterable[Value]:
        """The values inside it, for whoever looks for something in a collection."""
        return ()

    def resolve(self, m: Machine) -> Value:
        """The one value this stands for, once somebody must know."""
        return self


class Condition:
    """A question that the source leaves open: what is compared, by what, with what."""

    __slots__ = ("key", "left", "negated", "right", "sign")
    key: Hashable
    """The same for a condition and its negation."""

    def __init__(
        self, sign: str, left: Value, right: Value | None = None, negated: bool = False
    ) -> None:
        self.sign = sign
        self.left = left
        self.right = right
        self.negated = negated
        self.key = (sign, left.key, right.key if right is not None else None)

    @property
    def fixed(self) -> bool:
        return self.left.fixed and (self.right is None or self.right.fixed)

    @property
    def text(self) -> str:
        if self.right is None:
            return self.left.text
        return f"{self.left.text} {self.sign} {self.right.text}"

    def negate(self) -> Condition:
        return Condition(self.sign, self.left, self.right, not self.negated)

    def operands(self) -> Iterator[Value]:
        yield self.left
        if self.right is not None:
            yield self.right


def negation(answer: bool | Condition) -> bool | Condition:
    return answer.negate() if isinstance(answer, Condition) else not answer


@dataclass(frozen=True, slots=True)
class Times:
    """A source: what a number was multiplied by."""

    of: Hashable


class Unknown(Value):
    """Something the source does not tell. Never changed: what is learned of it is kept beside it.

    `data`: it was fetched or made of what was fetched, and no parameter hides in it. `of`, `name`:
    whose attribute it is. `given`: an argument of the function where a rehearsal starts, or a part
    of one.
    """

    __slots__ = ("_sources", "data", "fixed", "given", "key", "name", "of", "text")
    # Plain attributes: half of what a rehearsal does is to make these and to ask for their keys.
    key: Hashable
    text: str
    fixed: bool

    def __init__(
        self,
        key: Hashable,
        text: str,
        fixed: bool = True,
        sources: Sources = NOTHING,
        data: bool = False,
        of: Value | None = None,
        name: str = "",
        given: bool = False,
    ) -> None:
        self.key = key
        self.text = text
        self.fixed = fixed
        self._sources = sources
        self.data = data
        self.of = of
        self.name = name
        self.given = given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def sources(self) -> Sources:
        return self._sources

    def made_of(self, source: Hashable) -> Unknown:
        """The same value, of which one more thing is known that it was made of."""
        sources = self._sources | {source}
        return Unknown(
            self.key, self.text, self.fixed, sources, self.data, self.of, self.name, self.given
        )

    def named(self, m: Machine, name: str) -> None:
        m.labels.setdefault(self.key, name)

    def truth(self, m: Machine) -> bool | Condition:
        return self.key in m.counted_down_from or Condition("", self)

    def is_none(self, m: Machine) -> bool | Condition:
        return Condition("is", self, NONE)

    def call(self, call: Call) -> Value:
        return call.m.libraries.call_unknown(self, call)

    def attribute(self, m: Machine, name: str) -> Value:
        return m.libraries.attribute_of_unknown(m, self, name)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        m.libraries.set_attribute_of_unknown(m, self, name, value)

    def item(self, m: Machine, key: Value) -> Value:
        found = m.items_of(self).get(key.key)
        if found is None:
            found = m.unknown(f"{self.text}[{key.text}]", self, key, part=True)
            if found.fixed:
                m.items_of(self)[key.key] = found
        return found

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        m.write(m.items_of(self), key.key, value)

    def enter(self, m: Machine) -> Value:
        return m.libraries.enter_unknown(m, self)

    def iterate(self, m: Machine) -> Iterator[Value]:
        """A loop that trains is handed something new each round; any other one the same again."""
        loop = m.loops[-1] if m.loops else None
        fresh = self.data or (loop is not None and m.fetches(loop) and loop.goes_over(self))
        place = 0
        while True:
            text = f"{self.text}[{place}]"
            if fresh or not self.fixed:
                yield m.unknown(f"{self.text}[i]", self, element=True, data=fresh)
            else:
                made = m.unknown(text, self, Constant(place), part=True)
                made.named(m, f"{m.labels.get(self.key, self.text)}[{place}]")
                yield made
            place += 1

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if other.absorbs():
            return other.operate(m, sign, self, swapped=not swapped)
        counts = self.fixed and (isinstance(other, Count) or m.opens_gate(sign, other))
        if counts and ((swapped and sign in ("%", "//")) or m.is_numbered(self)):
            if sign != "%" or swapped:
                return Constant(m.number(self)).operate(m, sign, other, swapped=swapped)
        if m.is_numbered(self) and isinstance(other, Constant):
            return Constant(m.number(self)).operate(m, sign, other, swapped=swapped)
        made = Value.operate(self, m, sign, other, swapped=swapped)
        if sign == "*":
            m.keep_product(made, self, other)
            if isinstance(made, Unknown) and made.fixed:
                made = made.made_of(Times(self.key)).made_of(Times(other.key))
        if sign in ("*", "/") and not self.fixed and isinstance(made, Unknown):
            m.libraries.weigh(m, made, self, sign, other, swapped=swapped)
        return made

    def equals(self, m: Machine, other: Value) -> bool | Condition:
        if isinstance(other, Constant) and self._counts_up_to(m, other):
            return Constant(m.number(self)).equals(m, other)
        return Value.equals(self, m, other)

    def compare(self, m: Machine, other: Value) -> bool | Condition:
        if isinstance(other, Constant) and self._counts_up_to(m, other):
            return Constant(m.number(self)).compare(m, other)
        return Value.compare(self, m, other)

    def compared_by(self, m: Machine, other: Value) -> bool | Condition:
        if isinstance(other, Constant) and self._counts_up_to(m, other):
            return other.compare(m, Constant(m.number(self)))
        return Value.compared_by(self, m, other)

    def _counts_up_to(self, m: Machine, other: Constant) -> bool:
        """A counter is compared with this number: it says how long a window is."""
        if not self.fixed:
            return False
        if m.is_numbered(self) or m.is_size(self):
            return True
        return m.gating > 0 and isinstance(other, Count)

    def length(self, m: Machine) -> Value:
        """As many as a loop over it is rehearsed for."""
        if self.data:
            return m.rounds_over(self) or Value.length(self, m)
        return Length(m.plan.rounds, float(m.plan.rounds))


@dataclass(slots=True, eq=False)
class Test(Value):
    """The outcome of an open question, kept as a value: `flag = a > b`."""

    condition: Condition

    @property
    def key(self) -> Hashable:
        return ("test", self.condition.key, self.condition.negated)

    @property
    def text(self) -> str:
        return f"not {self.condition.text}" if self.condition.negated else self.condition.text

    @property
    def fixed(self) -> bool:
        return self.condition.fixed

    def truth(self, m: Machine) -> bool | Condition:
        return self.condition

    def attribute(self, m: Machine, name: str) -> Value:
        """`(x != 0).long()`: a mask, where data was compared."""
        return m.unknown(f"{self.text}.{name}", self)

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return m.unknown(self.text, self, other)


def truth_value(answer: bool | Condition) -> Value:
    if isinstance(answer, Condition):
        return Test(answer)
    return TRUE if answer else FALSE


@dataclass(slots=True, eq=False)
class Constant(Value):
    """A number, a string, None: what Python itself computes with."""

    value: Plain

    @property
    def key(self) -> Hashable:
        return ("constant", type(self.value).__name__, self.value)

    @property
    def text(self) -> str:
        return repr(self.value)

    def truth(self, m: Machine) -> bool | Condition:
        return bool(self.value)

    def is_none(self, m: Machine) -> bool | Condition:
        return self.value is None

    def attribute(self, m: Machine, name: str) -> Value:
        if self.value is None:
            # A program that works has something else here by then.
            return m.unknown(f"None.{name}")
        return TextMethod(self, name)

    def item(self, m: Machine, key: Value) -> Value:
        if isinstance(self.value, str) and isinstance(key, Constant):
            if isinstance(key.value, int) and -len(self.value) <= key.value < len(self.value):
                return Constant(self.value[key.value])
        return m.unknown(f"{self.text}[{key.text}]", self, key)

    def iterate(self, m: Machine) -> Iterator[Value]:
        if isinstance(self.value, str):
            yield from map(Constant, self.value[:MOST_ELEMENTS])

    def endless(self) -> bool:
        return False

    def length(self, m: Machine) -> Value:
        if isinstance(self.value, (str, bytes)):
            return Constant(len(self.value))
        return m.unknown(f"len({self.text})")

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if not isinstance(other, Constant):
            return other.operate(m, sign, self, swapped=not swapped)
        left, right = (other, self) if swapped else (self, other)
        return _computed(m, sign, left, right)

    def invert(self, m: Machine, sign: str) -> Value:
        if isinstance(self.value, (int, float)):
            if sign == "-":
                return self.like(-self.value)
            if sign == "+":
                return self
        return m.unknown(f"{sign}{self.text}")

    def like(self, value: Plain) -> Constant:
        return Constant(value)

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        if isinstance(self.value, str) and isinstance(element, Constant):
            return isinstance(element.value, str) and element.value in self.value
        return Condition("in", element, self)

    def equals(self, m: Machine, other: Value) -> bool | Condition:
        if isinstance(other, Constant):
            beyond = _beyond(m, "==", self, other)
            return self.value == other.value if beyond is None else beyond
        return other.equals(m, self)

    def compare(self, m: Machine, other: Value) -> bool | Condition:
        if not isinstance(other, Constant):
            return other.compared_by(m, self)
        beyond = _beyond(m, "<", self, other)
        if beyond is not None:
            return beyond
        try:
            return bool(self.value < other.value)  # type: ignore[operator]
        except TypeError:
            return Condition("<", self, other)

    @property
    def reach(self) -> float | None:
        """For a number that counts rounds: how far the rehearsal can count."""
        return None

    @property
    def last(self) -> float | None:
        """For a number that counts rounds: what it is in the last one, where that is known."""
        return None


@dataclass(slots=True, eq=False)
class Count(Constant):
    """A number that grows with the rounds of a loop, which a rehearsal cuts short.

    Up to `limit` it is exact; what lies beyond would be reached by the real loop only.
    """

    limit: float = 0.0
    end: float | None = None
    """What it is in the last round, which is rehearsed: until then, it is not that."""

    @property
    def fixed(self) -> bool:
        return False

    @property
    def text(self) -> str:
        return "a count"

    @property
    def reach(self) -> float | None:
        return self.limit

    @property
    def last(self) -> float | None:
        return self.end

    def like(self, value: Plain) -> Constant:
        return Count(value, self.limit)

    def settles(self, bound: float) -> bool:
        """Whether the rounds that are rehearsed tell how it compares with this."""
        return bound <= self.limit


@dataclass(slots=True, eq=False)
class Gathered(Count):
    """How much a loop has gathered: as many rounds as are rehearsed, however it is divided up."""

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if sign in ("//", "/") and not swapped:
            other = other.resolve(m)
            window = m.known_number(other)
            if window is None or window not in (m.plan.window, m.period):
                return self
            other = Constant(int(window))
        return Count.operate(self, m, sign, other, swapped=swapped)


@dataclass(slots=True, eq=False)
class Length(Gathered):
    """How much data there is: some; how much is nobody's to say."""

    def settles(self, bound: float) -> bool:
        return bound <= 0


def _beyond(m: Machine, sign: str, left: Constant, right: Constant) -> Condition | None:
    """A comparison that the real loop decides otherwise, later on, than the rehearsed rounds."""
    if left.reach is None and right.reach is None:
        return None
    if left.reach is not None and right.reach is not None:
        return None
    count, bound = (left, right) if left.reach is not None else (right, left)
    if not isinstance(bound.value, (int, float)) or isinstance(bound.value, bool):
        return None
    m.counts_up_to(bound.value)
    if bound.value == count.last or (isinstance(count, Count) and count.settles(bound.value)):
        return None
    return Condition(sign, left, right)


ARITHMETIC: dict[str, Callable[..., object]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
LARGEST = 1 << 64


def _computed(m: Machine, sign: str, left: Constant, right: Constant) -> Value:
    result = arithmetic(sign, left.value, right.value)
    if result is NotImplemented:
        return m.unknown(f"{left.text} {sign} {right.text}")
    assert isinstance(result, (int, float, complex, str, bytes, bool))
    counts = left.reach is not None or right.reach is not None
    if not counts or sign == "%":
        if sign == "%" and counts and right.reach is None:
            m.saw_period(right.value)
        return Constant(result)
    limit = arithmetic(
        sign,
        left.value if left.reach is None else left.reach,
        right.value if right.reach is None else right.reach,
    )
    if not isinstance(limit, (int, float)) or isinstance(limit, bool):
        limit = 0.0
    if abs(limit) >= LARGEST:
        return Constant(result)
    return Count(result, max(float(limit), 0.0), _last_of(sign, left, right))


def _last_of(sign: str, left: Constant, right: Constant) -> float | None:
    """What two numbers come to in the last round, of which one counts the rounds."""
    ends = [side.value if side.reach is None else side.last for side in (left, right)]
    if None in ends or (left.last is None) == (right.last is None):
        return None
    result = arithmetic(sign, *ends)
    return float(result) if isinstance(result, (int, float)) else None


def arithmetic(sign: str, left: object, right: object) -> object:
    """Python's own result, or NotImplemented where it would fail or grow without bound."""
    compute = ARITHMETIC.get(sign)
    if compute is None:
        return NotImplemented
    if sign in ("**", "<<") and isinstance(right, (int, float)) and abs(right) > 64:
        return NotImplemented
    if sign == "*" and (_long(left, right) or _long(right, left)):
        return NotImplemented
    try:
        result = compute(left, right)
    except Exception:  # the arithmetic of two plain values: whatever it raises, it is not known
        return NotImplemented
    if isinstance(result, int) and abs(result) > LARGEST:
        return NotImplemented
    if not isinstance(result, (int, float, complex, str, bytes)):
        return NotImplemented
    return result


def _long(one: object, times: object) -> bool:
    return isinstance(one, (str, bytes)) and isinstance(times, int) and len(one) * times > 10_000


NONE = Constant(None)
TRUE = Constant(True)
FALSE = Constant(False)


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


@dataclass(slots=True, eq=False)
class Either(Value):
    """One of two values, by the answer to an open question that nobody had to ask yet."""

    condition: Condition
    yes: Value
    no: Value

    DEEPEST: ClassVar[int] = 4

    @property
    def key(self) -> Hashable:
        return ("either", self.condition.key, self.yes.key, self.no.key)

    @property
    def text(self) -> str:
        return self.yes.text

    @property
    def fixed(self) -> bool:
        return self.condition.fixed and self.yes.fixed and self.no.fixed

    def sources(self) -> Sources:
        return self.yes.sources() | self.no.sources()

    def depth(self) -> int:
        sides = [side.depth() for side in (self.yes, self.no) if isinstance(side, Either)]
        return 1 + max(sides, default=0)

    def resolve(self, m: Machine) -> Value:
        side = self.yes if m.ask(self.condition) else self.no
        return side.resolve(m)

    def named(self, m: Machine, name: str) -> None:
        self.yes.named(m, name)
        self.no.named(m, name)

    def map(self, m: Machine, change: Callable[[Value], Value]) -> Value:
        known = m.answered(self.condition)
        if known is not None:
            return change(self.yes if known else self.no)
        return either(self.condition, change(self.yes), change(self.no), m)

    def truth(self, m: Machine) -> bool | Condition:
        return self._both(m, lambda side: side.truth(m))

    def is_none(self, m: Machine) -> bool | Condition:
        return self._both(m, lambda side: side.is_none(m))

    def equals(self, m: Machine, other: Value) -> bool | Condition:
        return self._both(m, lambda side: side.equals(m, other))

    def compare(self, m: Machine, other: Value) -> bool | Condition:
        return self._both(m, lambda side: side.compare(m, other))

    def compared_by(self, m: Machine, other: Value) -> bool | Condition:
        return self._both(m, lambda side: other.compare(m, side))

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        return self._both(m, lambda side: side.contains(m, element))

    def _both(self, m: Machine, question: Callable[[Value], bool | Condition]) -> bool | Condition:
        known = m.answered(self.condition)
        if known is not None:
            return question(self.yes if known else self.no)
        yes, no = question(self.yes), question(self.no)
        if isinstance(yes, bool) and isinstance(no, bool):
            if yes == no:
                return yes
            return self.condition if yes else self.condition.negate()
        return question(self.resolve(m))

    def attribute(self, m: Machine, name: str) -> Value:
        return self.resolve(m).attribute(m, name)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        self.resolve(m).set_attribute(m, name, value)

    def item(self, m: Machine, key: Value) -> Value:
        return self.map(m, lambda side: side.item(m, key))

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        self.resolve(m).set_item(m, key, value)

    def call(self, call: Call) -> Value:
        return self.resolve(call.m).call(call)

    def iterate(self, m: Machine) -> Iterator[Value]:
        return self.resolve(m).iterate(m)

    def for_each(self, m: Machine, body: Body) -> None:
        self.resolve(m).for_each(m, body)

    def endless(self) -> bool:
        return self.yes.endless() or self.no.endless()

    def length(self, m: Machine) -> Value:
        return self.map(m, lambda side: side.length(m))

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return self.map(m, lambda side: side.operate(m, sign, other, swapped=swapped))

    def invert(self, m: Machine, sign: str) -> Value:
        return self.map(m, lambda side: side.invert(m, sign))

    def enter(self, m: Machine) -> Value:
        return self.resolve(m).enter(m)

    def leave(self, m: Machine) -> None:
        self.resolve(m).leave(m)

    def held(self) -> Iterable[Value]:
        return (self.yes, self.no)


def either(condition: Condition, yes: Value, no: Value, m: Machine) -> Value:
    """Two values as one; the same value twice is itself."""
    if condition.negated:
        condition, yes, no = condition.negate(), no, yes
    if yes is no or yes.key == no.key:
        return yes
    joined = Either(condition, yes, no)
    if joined.depth() > Either.DEEPEST:
        return m.unknown(yes.text, yes, no)
    return joined


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

    def sources(self) -> Sources:
        found: Sources = NOTHING
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
        m.changed()

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


def _doubt_method(m: Machine, kind: type, name: str) -> None:
    """A program that works does not come here under these settings."""
    if not hasattr(kind, name):
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
        m.changed()
        if self.name == "append":
            if len(values) < 4 * MOST_ELEMENTS:
                values.append(first)
            self.of.limit = m.counted(Constant(len(values))).reach
            first.is_kept(m, values)
            return NONE
        if self.name in ("extend", "__iadd__"):
            self._extend(m, first)
            return NONE
        if self.name == "insert":
            at = index_of(first, len(values) + 1)
            values.insert(at or 0, call.argument(1) or NONE)
            return NONE
        if self.name == "pop":
            place = index_of(first, len(values)) if call.args else len(values) - 1
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
        _doubt_method(m, list, self.name)
        return m.unknown(f"{self.of.text}.{self.name}()", self.of, *call.args)

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
        call.m.changed()
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

    def sources(self) -> Sources:
        found: Sources = NOTHING
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
        return any_of(m, others, key)

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        m.changed()
        if not isinstance(key, Constant):
            self.open = True
        m.write(self.values, key.key, (key, value))
        value.is_kept(m, [])

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
        m.changed()
        if self.name == "update":
            for argument in call.args:
                if isinstance(argument, Dict):
                    of.values.update(argument.values)
                    of.open = of.open or argument.open
                else:
                    of.open = True
            for name, value in call.kwargs.items():
                of.values[("constant", "str", name)] = (Constant(name), value)
            return NONE
        if self.name == "copy":
            return Dict(dict(of.values), of.open)
        if self.name == "clear":
            of.values.clear()
            return NONE
        _doubt_method(m, dict, self.name)
        return m.unknown(f"dict.{self.name}()", of, *call.args)

    def _get(self, call: Call) -> Value:
        m, of, key = call.m, self.of, call.args[0]
        found = of.values.get(key.key)
        if found is not None:
            if self.name == "pop":
                m.changed()
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
        known: list[int | None] = []
        for bound in (self.lower, self.upper, self.step):
            plain = bound.value if isinstance(bound, Constant) else ""
            if plain is not None and not isinstance(plain, int):
                return list(values)
            known.append(plain)
        return list(values) if known[2] == 0 else values[known[0] : known[1] : known[2]]


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


class Call:
    """A call on its way: who calls what with which arguments."""

    __slots__ = ("args", "kwargs", "m", "open")

    def __init__(
        self,
        m: Machine,
        args: list[Value] | None = None,
        kwargs: dict[str, Value] | None = None,
        open: bool = False,
    ) -> None:
        self.m = m
        self.args = args if args is not None else []
        self.kwargs = kwargs if kwargs is not None else {}
        self.open = open
        """Further arguments were unpacked from something unknown."""

    def argument(self, place: int, name: str = "") -> Value | None:
        if place < len(self.args):
            return self.args[place]
        return self.kwargs.get(name)

    def values(self) -> list[Value]:
        return [*self.args, *self.kwargs.values()]

    def unseen(self, what: Value) -> Value:
        """The result of code that cannot be looked into."""
        return self.m.libraries.call_unseen(what, self)
