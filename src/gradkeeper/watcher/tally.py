"""What one rank did between exchanges of gradients, short enough to be sent at the end.

Ranks exchange together or hang, so the n-th exchange of one is the n-th of all: that is the clock
by which they can be compared afterwards, without a word between them while they train.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from gradkeeper.model import Event, Site
from gradkeeper.model import events as ev

MOST_RUNS = 20_000
"""Of turns that do not repeat themselves; what comes later is not compared."""


class Turn(NamedTuple):
    """From one exchange of gradients to the next, with the backwards that waited for the first."""

    backwards: int
    steps: tuple[tuple[str, bool], ...]
    """The optimizers that were asked to step, and whether they did."""
    site: Site
    """The last step's, or else the backward's."""

    def did(self) -> tuple[object, ...]:
        """What must be equal on all ranks."""
        return self.backwards, self.steps

    def __str__(self) -> str:
        calls = f"{self.backwards} backward call{'s' if self.backwards > 1 else ''}"
        if not self.steps:
            return f"took no step after {calls}"
        if not any(taken for _, taken in self.steps):
            return f"skipped its step after {calls}"
        return f"stepped after {calls}"


Run = tuple[tuple[Turn, ...], int]
"""Turns that came one after the other, and how often."""


class Tally:
    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self.runs: list[Run] = list(runs)
        self._open: Turn | None = None
        self._waiting = 0
        """Backwards that were not exchanged yet."""

    def take(self, event: Event) -> None:
        match event:
            case ev.Backward(synced=False):
                self._waiting += 1
            case ev.Backward(synced=True):
                self.close()
                self._open = Turn(self._waiting + 1, (), event.site)
                self._waiting = 0
            case ev.Step() if self._open is not None:
                steps = (*self._open.steps, (event.optimizer, event.taken))
                self._open = Turn(self._open.backwards, steps, event.site)

    def repeat(self, exchanges: int, times: int) -> None:
        """As many of the last turns as `exchanges` came `times` more."""
        if not exchanges or len(self.runs) >= MOST_RUNS:
            return
        # The open one stays: it stands where it stood a round ago.
        last = tuple(islice(self._backwards(), exchanges))[::-1]
        self.runs.append((last, times))

    def close(self) -> None:
        turn, self._open = self._open, None
        if turn is None or len(self.runs) >= MOST_RUNS:
            return
        if self.runs and self.runs[-1][0] == (turn,):
            self.runs[-1] = ((turn,), self.runs[-1][1] + 1)
        else:
            self.runs.append(((turn,), 1))

    def _backwards(self) -> Iterator[Turn]:
        for turns, times in reversed(self.runs):
            for _ in range(times):
                yield from reversed(turns)

    def __iter__(self) -> Iterator[Turn]:
        for turns, times in self.runs:
            for _ in range(times):
                yield from turns


def read_runs(record: list[Any]) -> Tally:
    """A tally whose runs went through JSON."""
    runs = [(tuple(_turn(one) for one in turns), times) for turns, times in record]
    return Tally(runs)


def _turn(record: list[Any]) -> Turn:
    backwards, steps, site = record
    return Turn(backwards, tuple((name, taken) for name, taken in steps), Site(*site))


def digests(tallies: list[Tally]) -> Iterator[ev.Digest]:
    """Where ranks did not do the same, as far as all of them went."""
    for exchange, turns in enumerate(zip(*tallies, strict=False), 1):
        if len({turn.did() for turn in turns}) > 1:
            yield _digest(turns, exchange)


def _digest(turns: tuple[Turn, ...], exchange: int) -> ev.Digest:
    """At the line where a rank steps, which is where the others should have."""
    did = tuple(str(turn) for turn in turns)
    usual = max(did, key=did.count)
    odd = next((rank for rank, what in enumerate(did) if what != usual), 0)
    stepping = [turn.site for turn in (turns[odd], *turns) if turn.steps]
    site = stepping[0] if stepping else turns[odd].site
    return ev.Digest(site=site, rank=odd, ranks=did, exchange=exchange)
