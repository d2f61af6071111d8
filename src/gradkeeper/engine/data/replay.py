"""Calls that draw random numbers, written down so that they can be made again.

Training draws from the same generators in between. So what counts is the state of a generator right
before a call that draws from it, wherever that is not simply the state after the call before.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from gradkeeper.engine.data.plain import given, kept
from gradkeeper.engine.data.sources import Reading, Sources, changed

T = TypeVar("T")
NO_CALLS: dict[str, Any] = {"calls": 0, "notes": []}


class Replay:
    def __init__(self, sources: Sources) -> None:
        self.calls = 0
        self._sources = sources
        self._notes: dict[int, Reading] = {}
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
            self._sources.write(self._left | self._notes.get(number, {}))
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

    def _note(self, number: int, before: Reading, after: Reading) -> None:
        drawn_from = changed(before, after)
        elsewhere = changed(drawn_from, self._left)
        if elsewhere:
            self._notes[number] = elsewhere
        self._left |= {name: after[name] for name in drawn_from}

    def state(self) -> dict[str, Any]:
        notes = [[number, kept(note)] for number, note in self._notes.items()]
        return {"calls": self.calls, "notes": notes}

    def load(self, state: dict[str, Any]) -> None:
        self.calls = 0
        self._told = state["calls"]
        self._notes = {number: given(note) for number, note in state["notes"]}
        self._left = {}
