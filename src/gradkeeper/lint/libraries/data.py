"""Loaders and samplers: what they hand out, in which order, and from where on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.objects import Iterated, Labelled, StandIn, flatten, visible
from gradkeeper.lint.interpreter.values import (
    NONE,
    Body,
    Call,
    Constant,
    Count,
    Either,
    Length,
    Value,
)
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.frames import Loop
    from gradkeeper.lint.interpreter.machine import Machine

AROUND = 4
"""How deep a loader may lie: enumerate(tqdm(loader))."""

READERS = words("len print str int float min max range format iter next list isinstance info debug")
"""Functions that do nothing to a loader but read it."""


class Lendable(Labelled):
    """What frameworks and code that is not seen may do something with, once they have it."""

    __slots__ = ("lent",)

    def __init__(self, label: str) -> None:
        self.label = label
        self.lent = False

    def lend(self) -> None:
        self.lent = True


class SharedOut(Lendable):
    """DistributedSampler(data) that shuffles."""

    __slots__ = ("owners", "serial", "told")

    def __init__(self, serial: int) -> None:
        super().__init__("sampler")
        self.owners: set[str] = set()
        """What those are called that give it out in batches."""
        self.serial = serial
        self.told = 0
        """How often it was told an epoch."""

    @visible
    def set_epoch(self, call: Call) -> Value:
        self.told += 1
        return NONE

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        self.told += 1


Batches = Callable[["Machine", int], Value]
"""What the batch at a place is."""


class Loader(Lendable):
    """A DataLoader: hands out batches, as many as the rehearsal has rounds for."""

    __slots__ = ("batches", "of", "sampler", "size")

    def __init__(
        self,
        size: int | None = None,
        of: Value | None = None,
        sampler: SharedOut | None = None,
        batches: Batches | None = None,
    ) -> None:
        super().__init__("loader")
        self.size = size
        self.of = of
        self.sampler = sampler
        self.batches = batches

    def lend(self) -> None:
        super().lend()
        if self.sampler is not None:
            self.sampler.lend()

    def iterate(self, m: Machine) -> Iterator[Value]:
        count = 0
        size = None if self.size is None else m.shortened(self.size)
        while size is None or count < size:
            since = m.serial
            made = self._batch(m, count)
            m.hands_out(self, since)
            count += 1
            yield made

    def _batch(self, m: Machine, place: int) -> Value:
        if self.batches is not None:
            return self.batches(m, place)
        return m.unknown(f"{self.label}[i]", element=True, data=True, fixed=False)

    def endless(self) -> bool:
        return self.size is None

    def length(self, m: Machine) -> Value:
        if self.size is None:
            return Length(m.plan.rounds, float(m.plan.rounds))
        size = m.shortened(self.size)
        return Constant(size) if size == self.size else Count(size, float(size))

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "sampler" and self.sampler is not None:
            return self.sampler
        if name in ("dataset", "sampler", "batch_sampler"):
            return m.unknown(f"{self.label}.{name}")
        return StandIn.attribute(self, m, name)


class InBatches(Loader):
    """BatchSampler(sampler, batch_size, drop_last): whoever has it can tell its sampler."""

    __slots__ = ()

    def named(self, m: Machine, name: str) -> None:
        super().named(m, name)
        if self.sampler is not None:
            self.sampler.owners.add(name)


class StatefulLoader(Loader):
    """One with load_state_dict(), which concerns the iterators that are made after it."""

    __slots__ = ("told",)

    def __init__(
        self,
        size: int | None = None,
        of: Value | None = None,
        sampler: SharedOut | None = None,
        batches: Batches | None = None,
    ) -> None:
        super().__init__(size, of, sampler, batches)
        self.told = 0

    def iterate(self, m: Machine) -> Iterator[Value]:
        since = self.told
        for element in super().iterate(m):
            self.ask(m, since)
            yield element

    def ask(self, m: Machine, since: int) -> None:
        """Something is taken from an iterator that was made when it had been told so often."""
        if self.told > since and not self.lent:
            m.state(RunTape).note(m, ev.Overrun, loader=self.label)

    @visible
    def load_state_dict(self, call: Call) -> Value:
        call.m.must_be_sure()
        self.told += 1
        call.m.state(RunTape).note(call.m, ev.Resume, loader=self.label)
        return NONE


class Opened(Iterated):
    """iter(loader) of such a one."""

    __slots__ = ("since",)

    def __init__(self, of: StatefulLoader) -> None:
        super().__init__(of)
        self.since = of.told

    def iterate(self, m: Machine) -> Iterator[Value]:
        self._ask(m)
        return super().iterate(m)

    def for_each(self, m: Machine, body: Body) -> None:
        self._ask(m)
        super().for_each(m, body)

    def _ask(self, m: Machine) -> None:
        assert isinstance(self.of, StatefulLoader)
        self.of.ask(m, self.since)


def lend(values: Iterable[Value]) -> None:
    """Somebody gets hold of these who is not seen, or who sees to the epochs."""
    for value in flatten(list(values)):
        if isinstance(value, Lendable):
            value.lend()


def share_out(call: Call) -> Value:
    """DistributedSampler(dataset, num_replicas, rank, shuffle=True, ...)."""
    shuffle = call.argument(3, "shuffle")
    plain = shuffle is None or (isinstance(shuffle, Constant) and shuffle.value is True)
    if not plain or call.open:
        return call.m.unknown("sampler")
    call.m.serial += 1
    return SharedOut(call.m.serial)


def in_batches(call: Call) -> Value:
    sampler = sampler_in(call.argument(0, "sampler"))
    return call.m.unknown("sampler") if sampler is None else InBatches(sampler=sampler)


def sampler_in(value: Value | None) -> SharedOut | None:
    """The one that shares data out, where a condition chooses among samplers, or in batches."""
    for side in _sides(value or NONE):
        within = side.sampler if isinstance(side, Loader) else side
        if isinstance(within, SharedOut):
            return within
    return None


def shuffle(m: Machine, loop: Loop, source: str) -> None:
    """A loop over a loader begins an epoch of it: in which order?"""
    value, sampler = loop.iterable, None
    for _ in range(AROUND):
        sampler = getattr(value, "sampler", None)
        if isinstance(sampler, SharedOut):
            break
        value = getattr(value, "of", None)
    if not isinstance(sampler, SharedOut) or sampler.lent or _is_told(m, sampler):
        return
    if value is None or _is_mentioned(m, {sampler.label, value.text, *sampler.owners}):
        return
    name = f"{sampler.label}#{sampler.serial}"
    tape = m.state(RunTape)
    tape.note(m, ev.Shuffle, source=source, sampler=name, seed=sampler.told, site=loop.site)


def _is_told(m: Machine, sampler: SharedOut) -> bool:
    """Some line of the program tells epochs, if only one that this run does not pass."""
    uses = m.facts.uses
    return "epoch" in uses.get(sampler.label, ()) or any(
        "set_epoch" in found for found in uses.values()
    )


def _is_mentioned(m: Machine, names: set[str]) -> bool:
    """A line that was skipped, for nothing in it matters to gradients, hands one of these on."""
    skipped = m.facts.skipped
    return any(
        id(line.node) in skipped and not names.isdisjoint(line.words) and line.calls - READERS
        for _, file in m.facts.read_files()
        for line in file.walk()
    )


def _sides(value: Value) -> Iterable[Value]:
    if isinstance(value, Either):
        yield from _sides(value.yes)
        yield from _sides(value.no)
    else:
        yield value
