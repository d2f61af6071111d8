"""torch.utils.data as far as order matters: samplers, and who may tell them which epoch it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.objects import StandIn, flatten, visible
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Either, Value
from gradkeeper.lint.libraries.leaves import words
from gradkeeper.lint.libraries.recording import Tape
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine
    from gradkeeper.lint.interpreter.state import Loop

AROUND = 4
"""How deep a loader may lie: enumerate(tqdm(loader))."""

READERS = words("len print str int float min max range format iter next list isinstance info debug")
"""Functions that do nothing to a loader but read it."""


class Lendable(StandIn):
    """What frameworks and code that is not seen may do something with, once they have it."""

    __slots__ = ("lent",)

    def __init__(self) -> None:
        self.lent = False

    def lend(self) -> None:
        self.lent = True


class SharedOut(Lendable):
    """DistributedSampler(data) that shuffles."""

    __slots__ = ("label", "serial", "told")

    def __init__(self, serial: int) -> None:
        super().__init__()
        self.label = "sampler"
        self.serial = serial
        self.told = 0
        """How often it was told an epoch."""

    @property
    def text(self) -> str:
        return self.label

    def named(self, m: Machine, name: str) -> None:
        self.label = name

    @visible
    def set_epoch(self, call: Call) -> Value:
        self.told += 1
        return NONE

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        self.told += 1


def lend(values: Iterable[Value]) -> None:
    """Somebody gets hold of these who is not seen, or who sees to the epochs."""
    for one in flatten(list(values)):
        for side in _sides(one):
            if isinstance(side, Lendable):
                side.lend()


def share_out(call: Call) -> Value:
    """DistributedSampler(dataset, num_replicas, rank, shuffle=True, ...)."""
    shuffle = call.argument(3, "shuffle")
    plain = shuffle is None or (isinstance(shuffle, Constant) and shuffle.value is True)
    if not plain or call.open:
        return call.m.unknown("sampler")
    call.m.serial += 1
    return SharedOut(call.m.serial)


def sampler_in(value: Value | None) -> SharedOut | None:
    """The one that shares data out, where a condition chooses among samplers."""
    found = [one for one in _sides(value or NONE) if isinstance(one, SharedOut)]
    return found[0] if found else None


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
    if value is None or _is_mentioned(m, {sampler.label, value.text}):
        return
    name = f"{sampler.label}#{sampler.serial}"
    tape = m.state(Tape)
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
