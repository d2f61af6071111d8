"""Calls that draw random numbers, written down so that they can be made again.

Training draws from the same generators in between. So what counts is the state of a generator right
before a call that draws from it, wherever that is not simply the state after the call before. Where
it can be, that is written down as how much further the generator is: one number, the same for call
after call, so that a record of a million calls is as short as one of ten.
"""

import zlib
from array import array
from collections.abc import Callable
from typing import Any, TypeVar

from gradkeeper.engine.data.feed import given, kept
from gradkeeper.engine.data.generators import RandomSources, Reading, changed
from gradkeeper.engine.data.mersenne import (
    Twister,
    advanced,
    generator_state,
    twister,
    words_between,
)
from gradkeeper.engine.journal import warn_at
from gradkeeper.source_line import user_site

T = TypeVar("T")
NO_CALLS: dict[str, Any] = {"calls": 0, "notes": []}
MANY = 200
"""States in full that nobody is warned of: about a megabyte."""


class Distances:
    """By call: how many numbers others had drawn from one generator since the call before.

    Kept as runs of calls with the same distance.
    """

    def __init__(self, runs: "array[int] | None" = None) -> None:
        self._runs = array("q") if runs is None else runs
        """First call, last call, distance; and so on."""
        self._at = 0

    def add(self, call: int, distance: int) -> None:
        runs = self._runs
        if runs and runs[-1] == distance and runs[-2] == call - 1:
            runs[-2] = call
        else:
            runs.extend((call, call, distance))

    def of(self, call: int) -> int | None:
        """Calls are asked for in their order."""
        runs = self._runs
        while self._at < len(runs) and runs[self._at + 1] < call:
            self._at += 3
        if self._at >= len(runs) or call < runs[self._at]:
            return None
        return runs[self._at + 2]

    def state(self) -> bytes:
        """By how much each run is behind the one before it: what comes in turns is short then."""
        runs, steps, end = self._runs, array("q"), 0
        for place in range(0, len(runs), 3):
            first, last, distance = runs[place : place + 3]
            steps.extend((first - end, last - first, distance))
            end = last
        return zlib.compress(steps.tobytes())


def distances_of(state: bytes) -> Distances:
    steps, runs, end = array("q", zlib.decompress(state)), array("q"), 0
    for place in range(0, len(steps), 3):
        gap, length, distance = steps[place : place + 3]
        runs.extend((end + gap, end + gap + length, distance))
        end += gap + length
    return Distances(runs)


class RandomCalls:
    def __init__(self, sources: RandomSources) -> None:
        self.calls = 0
        self._sources = sources
        self._notes: dict[int, Reading] = {}
        self._distances: dict[str, Distances] = {}
        self._told = 0
        """Calls that were made in an earlier process: they draw from what is noted."""
        self._left: Reading = {}
        """Each generator as the last of these calls that drew from it left it."""

    def call(self, act: Callable[[], T], *, own_only: bool = False) -> T:
        """`own_only`: it is known to draw from no generator of the process. Reading those takes
        longer than drawing a batch of indices does."""
        number = self.calls
        self.calls += 1
        if number < self._told:
            self._sources.write(self._left | self._noted(number))
            self._left = {}
            return act()
        if own_only and not self._sources.has_own:
            return act()
        read = self._sources.read_own if own_only else self._sources.read
        before = read()
        try:
            return act()
        finally:
            self._note(number, before, read())

    def pause(self) -> None:
        """Others draw now, and the next call goes on from here."""
        self._left = self._sources.read()

    def _noted(self, number: int) -> Reading:
        noted = self._notes.get(number, {})
        further = {name: runs.of(number) for name, runs in self._distances.items()}
        if any(count is not None for count in further.values()):
            now = self._sources.read() | self._left
            for name, count in further.items():
                if count is not None:
                    noted = noted | {name: _further(now[name], count)}
        return noted

    def _note(self, number: int, before: Reading, after: Reading) -> None:
        drawn_from = changed(before, after)
        elsewhere = changed(drawn_from, self._left)
        whole: Reading = {}
        for name, (kind, state) in elsewhere.items():
            count = None if name not in self._left else _between(self._left[name], (kind, state))
            if count is None:
                whole[name] = (kind, state)
            else:
                self._distances.setdefault(name, Distances()).add(number, count)
        if whole:
            self._notes[number] = whole
            if len(self._notes) == MANY:
                _warn(whole)
        self._left |= {name: after[name] for name in drawn_from}

    def state(self) -> dict[str, Any]:
        notes = [[number, kept(note)] for number, note in self._notes.items()]
        distances = {name: kept(runs.state()) for name, runs in self._distances.items()}
        return {"calls": self.calls, "notes": notes, "distances": distances}

    def load(self, state: dict[str, Any]) -> None:
        self.calls = 0
        self._told = state["calls"]
        self._notes = {number: given(note) for number, note in state["notes"]}
        # None before 0.2, nor where no call was made.
        distances = state.get("distances", {})
        self._distances = {name: distances_of(given(runs)) for name, runs in distances.items()}
        self._left = {}


def _between(left: tuple[str, Any], found: tuple[str, Any]) -> int | None:
    """How much further a generator is than it was left, where nothing else has changed in it."""
    if left[0] != found[0]:
        return None
    before, after = _twister(left), _twister(found)
    if before is None or after is None or before.rest != after.rest:
        return None
    return words_between(before, after)


def _further(left: tuple[str, Any], count: int) -> tuple[str, Any]:
    before = _twister(left)
    assert before is not None, "noted of such a one"
    return left[0], generator_state(left[0], advanced(before, count))


def _twister(reading: tuple[str, Any]) -> Twister | None:
    return twister(*reading)


def _warn(note: Reading) -> None:
    names = " and ".join(f"`{name}`" for name in note)
    warn_at(
        user_site(),
        f"the loader draws from the random generator {names}, and so does the program in between, "
        "in a way that can be kept only by writing down the generator's state for each batch: "
        "checkpoints grow by some KB per batch. Give the loader a generator of its own "
        "(torch.Generator, numpy.random.default_rng), or state_dict() and load_state_dict()",
    )
