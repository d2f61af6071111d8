"""itertools: chain, islice, cycle, count, repeat."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Dict, List, Tuple
from gradkeeper.lint.interpreter.objects import (
    Generator,
    Iterated,
    as_list,
)
from gradkeeper.lint.interpreter.values import (
    NONE,
    Body,
    Call,
    Constant,
    Count,
    Provenance,
    Value,
)
from gradkeeper.lint.libraries.builtins import OpenRange
from gradkeeper.lint.libraries.parameters import Params
from gradkeeper.lint.libraries.recording import RunTape

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


def chain(call: Call) -> Value:
    parts = [argument.resolve(call.m) for argument in call.args]
    if any(isinstance(part, Params) for part in parts):
        leaves = [
            leaf
            for part in parts
            if isinstance(part, Params)
            for leaf in part.take(call.m, "chain()")
        ]
        named = any(isinstance(part, Params) and part.with_names for part in parts)
        return Params(tuple(leaves), "chain()", named)
    return Chained(tuple(parts))


def chain_all(call: Call) -> Value:
    parts = as_list(call.m, (call.argument(0) or NONE).resolve(call.m)).values
    return chain(Call(call.m, parts))


class Chained(Value):
    """itertools.chain(): one after the other."""

    __slots__ = ("of",)

    def __init__(self, of: tuple[Value, ...]) -> None:
        self.of = of

    @property
    def text(self) -> str:
        return "chain()"

    def sources(self) -> Provenance:
        found: Provenance = frozenset()
        for iterable in self.of:
            found |= iterable.sources()
        return found

    def for_each(self, m: Machine, body: Body) -> None:
        ended = False
        count = 0

        def each(element: Value) -> bool:
            nonlocal ended, count
            count += 1
            ended = body(element)
            return ended or (iterable.endless() and count >= m.plan.rounds)

        for iterable in self.of:
            count = 0
            iterable.for_each(m, each)
            if ended:
                return

    def iterate(self, m: Machine) -> Iterator[Value]:
        for iterable in self.of:
            for place, element in enumerate(iterable.iterate(m)):
                if iterable.endless() and place >= m.plan.rounds:
                    break
                yield element

    def endless(self) -> bool:
        return all(iterable.endless() for iterable in self.of)


class Sliced(Value):
    """itertools.islice(): no more than so many."""

    __slots__ = ("most", "of")

    def __init__(self, of: Value, most: int) -> None:
        self.of = of
        self.most = most

    @property
    def text(self) -> str:
        return self.of.text

    def for_each(self, m: Machine, body: Body) -> None:
        if isinstance(self.of, (Iterated, Generator)) and not self._trains(m):
            self._take(m, self.of, body)
            return
        count = 0

        def some(element: Value) -> bool:
            nonlocal count
            count += 1
            return count > self.most or body(element) or count == self.most

        self.of.for_each(m, some)

    def _take(self, m: Machine, of: Iterated | Generator, body: Body) -> None:
        """What is taken is gone: the next slice begins where this one ends, and a `while` loop over
        slices ends with the data."""
        over = m.goes_over(of, True)
        for element in self.iterate(m):
            if over and of.endless() and of.given >= m.loops[-1].rounds:
                return
            of.given += 1
            if body(element):
                return

    def _trains(self, m: Machine) -> bool:
        """What it takes from does something, as it is gone through."""
        of = self.of
        return isinstance(of, Generator) and id(of.function.code) in m.facts.whole_loops

    def iterate(self, m: Machine) -> Iterator[Value]:
        return itertools.islice(self.of.iterate(m), self.most)

    def endless(self) -> bool:
        return False

    def length(self, m: Machine) -> Value:
        known = self.of.length(m)
        if isinstance(known, Constant) and isinstance(known.value, int):
            if not isinstance(known, Count):
                return Constant(min(self.most, known.value))
        return Constant(self.most)


def islice(call: Call) -> Value:
    of = (call.argument(0) or NONE).resolve(call.m)
    stop = call.argument(2) or call.argument(1) or NONE
    if isinstance(stop, Constant) and isinstance(stop.value, int):
        if isinstance(of, (Iterated, Generator)):
            call.m.takes_at_once(stop.value)
        return Sliced(of, stop.value)
    return OpenSlice(of, stop)


class OpenSlice(Sliced):
    """The same, of a number that is not known."""

    __slots__ = ("number",)

    def __init__(self, of: Value, number: Value) -> None:
        super().__init__(of, 1 << 30)
        self.number = number

    def endless(self) -> bool:
        return True

    def asked_number(self) -> Value | None:
        return self.number

    def length(self, m: Machine) -> Value:
        return self.number


class Cycled(Value):
    """itertools.cycle(): without end."""

    __slots__ = ("of", "turns")

    def __init__(self, of: Value) -> None:
        self.of = of
        self.turns: Iterator[Value] | None = None

    @property
    def text(self) -> str:
        return self.of.text

    def next_known(self, m: Machine) -> Value | None:
        """Whose turn it is, of what is no data: `next(cycle([False, False, True]))`."""
        if self.turns is None and self._takes_turns(m):
            self.turns = self.iterate(m)
            flags = [part.value for part in self.of.iterate(m) if isinstance(part, Constant)]
            if any(flag is True for flag in flags):
                m.takes_at_once(len(flags))
        return None if self.turns is None else next(self.turns, None)

    def _takes_turns(self, m: Machine) -> bool:
        if not isinstance(self.of, (List, Tuple, Dict)) or self.of.endless():
            return False
        return all(
            isinstance(element, Constant) or element.takes_part() for element in self.of.iterate(m)
        )

    def iterate(self, m: Machine) -> Iterator[Value]:
        kept: list[Value] = []
        if isinstance(self.of, OpenRange):
            m.doubt("how long a cycle is cannot be told")
        for element in self.of.iterate(m):
            kept.append(element)
            yield element
        while kept:
            if len(kept) > 1:
                m.state(RunTape).newest = 0  # each was fetched before, and is a batch once more
            yield from kept


def cycle(call: Call) -> Value:
    return Cycled((call.argument(0) or NONE).resolve(call.m))


def count(call: Call) -> Value:
    start = call.argument(0, "start")
    begin = start.value if isinstance(start, Constant) and isinstance(start.value, int) else 0
    step = call.argument(1, "step") or Constant(1)
    if not isinstance(step, Constant) or type(step.value) is not int or step.value < 1:
        return call.m.unknown("count()", fixed=False)
    return Counting(NONE, begin, step.value)


class Counting(OpenRange):
    """itertools.count(): numbers for whoever asks, or for a loop beside what it goes over."""

    __slots__ = ("given", "step")

    def __init__(self, number: Value, start: int, step: int) -> None:
        super().__init__(number, start)
        self.given = 0
        self.step = step

    def next_known(self, m: Machine) -> Value | None:
        self.given += 1
        number = Constant(self.start + (self.given - 1) * self.step)
        return m.counted(number).paced(self.step)

    def iterate(self, m: Machine) -> Iterator[Value]:
        if self.step == 1:
            yield from OpenRange.iterate(self, m)
        while True:
            yield m.unknown("count()", fixed=False)


def repeat(call: Call) -> Value:
    return Cycled(List([call.argument(0) or NONE]))
