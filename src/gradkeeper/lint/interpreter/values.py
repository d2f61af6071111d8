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
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine
    from gradkeeper.lint.interpreter.objects import Class, Instance

Provenance = frozenset[Hashable]
"""What a value was made of, in tokens that only the libraries understand."""
NOTHING: Provenance = frozenset()
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

    def sources(self) -> Provenance:
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

    def next_known(self, m: Machine) -> Value | None:
        """Its next element, of an iterator that hands out what is known and no data."""
        return None

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

    def acts(self, m: Machine) -> bool:
        """Called, it may do something to gradients: a function of the program."""
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

    def of_object(self, m: Machine, instance: Instance, name: str) -> Value:
        """As a member of a class: what one of its objects has by this name."""
        return self

    def of_class(self, cls: Class) -> Value:
        """As a member of a class: what the class itself has by this name."""
        return self

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


TURN = "turn"
"""A source: one of several things that a loop goes over, each in its turn."""


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
        sources: Provenance = NOTHING,
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

    def sources(self) -> Provenance:
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
        if m.half_taken and self.fixed:
            m.attribute_of(self, name)  # it had one before, which stays where this is not come to
        m.libraries.set_attribute_of_unknown(m, self, name, value)

    def item(self, m: Machine, key: Value) -> Value:
        found = m.items_of(self).get(key.key)
        if found is None:
            found = m.unknown(f"{self.text}[{key.text}]", self, key, part=True)
            if found.fixed:
                m.items_of(self)[key.key] = found
        return found

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        if m.half_taken and self.fixed:
            self.item(m, key)
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
                since = m.serial
                made = m.unknown(f"{self.text}[i]", self, element=True, data=fresh)
                m.hands_out(self, since)
                yield made
            else:
                made = m.unknown(text, self, Constant(place), part=True).made_of(TURN)
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
        if sign == "+":
            m.keep_sum(made, self, other)
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


class Constant(Value):
    """A number, a string, None: what Python itself computes with."""

    __slots__ = ("key", "value")
    key: Hashable
    value: Plain

    def __init__(self, value: Plain) -> None:
        self.value = value
        self.key = ("constant", type(value).__name__, value)

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
        return m.method_of_text(self, name)

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
        if isinstance(other, Constant) and not isinstance(other, Samples):
            beyond = _beyond(m, "==", self, other)
            return self.value == other.value if beyond is None else beyond
        return other.equals(m, self)

    def compare(self, m: Machine, other: Value) -> bool | Condition:
        if not isinstance(other, Constant) or isinstance(other, Samples):
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

    @property
    def pace(self) -> int:
        """For a number that counts rounds: by how much it grows in each."""
        return 1

    def paced(self, pace: int) -> Constant:
        """The same number, of which a loop adds so many at a time."""
        return self


class Count(Constant):
    """A number that grows with the rounds of a loop, which a rehearsal cuts short.

    Up to `limit` it is exact; what lies beyond would be reached by the real loop only. `end`: what
    it is in the last round, which is rehearsed; until then, it is not that. `by`: what each adds.
    """

    __slots__ = ("by", "end", "limit")

    def __init__(
        self, value: Plain, limit: float = 0.0, end: float | None = None, by: int = 1
    ) -> None:
        Constant.__init__(self, value)
        self.limit = limit
        self.end = end
        self.by = by

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
        return Count(value, self.limit, by=self.by)

    @property
    def pace(self) -> int:
        return self.by

    def paced(self, pace: int) -> Constant:
        if self.by == pace:
            return self
        return type(self)(self.value, self.limit / self.by * pace, self.end, pace)

    def settles(self, bound: float) -> bool:
        """Whether the rounds that are rehearsed tell how it compares with this."""
        return bound <= self.limit

    def skips(self, number: float) -> bool:
        """Between the first rounds and the last one, it would have been this number, too."""
        return self.end is not None and self.limit - 1 <= number < self.end


class Samples(Count):
    """How many samples were seen: those of so many batches, of a length that nobody tells."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return "a number of samples"

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return m.unknown(f"{self.text} {sign} {other.text}", data=True, fixed=False)

    def compare(self, m: Machine, other: Value) -> bool | Condition:
        batches = self._in_batches(m, other)
        return Condition("<", self, other) if batches is None else self.value < batches  # type: ignore[operator]

    def compared_by(self, m: Machine, other: Value) -> bool | Condition:
        batches = self._in_batches(m, other)
        return Condition("<", other, self) if batches is None else batches < self.value  # type: ignore[operator]

    def equals(self, m: Machine, other: Value) -> bool | Condition:
        batches = self._in_batches(m, other)
        return Condition("==", self, other) if batches is None else self.value == batches

    def _in_batches(self, m: Machine, other: Value) -> int | None:
        """So many batches have this number of samples, where that closes a window."""
        number = other.value if isinstance(other, Constant) else None
        if isinstance(number, (int, float)) and number < 1:
            return int(number)
        if not m.gating or not other.fixed:
            return None
        m.counts_samples = True
        return m.number(other)


class Gathered(Count):
    """How much a loop has gathered: as many rounds as are rehearsed, however it is divided up."""

    __slots__ = ()

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if sign in ("//", "/") and not swapped:
            other = other.resolve(m)
            window = m.known_number(other)
            if window is None or window not in (m.plan.window, m.period):
                return self
            other = Constant(int(window))
        return Count.operate(self, m, sign, other, swapped=swapped)


class Length(Gathered):
    """How much data there is: some; how much is nobody's to say."""

    __slots__ = ()

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
    m.counts_up_to(bound.value / count.pace)
    if sign == "<" and isinstance(count, Count):
        m.passes(count.limit - bound.value)
    if bound.value == count.last:
        return None
    if isinstance(count, Count) and count.settles(bound.value):
        return Condition(sign, left, right) if sign == "==" and count.skips(bound.value) else None
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
    if sign == "%" and left.reach is not None and right.reach is None:
        right = Constant(m.shorter_period(right.value, left.reach))
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
    pace = max(left.pace, right.pace) if sign in ("+", "-") else 1
    return Count(result, max(float(limit), 0.0), _last_of(sign, left, right), pace)


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


def _long(text: object, times: object) -> bool:
    return isinstance(text, (str, bytes)) and isinstance(times, int) and len(text) * times > 10_000


NONE = Constant(None)
TRUE = Constant(True)
FALSE = Constant(False)


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

    def sources(self) -> Provenance:
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
