"""Where events go: to the auditor and the tape, unless they only repeat what came before.

An event is first a key: its kind, site and fields in a tuple. When the same keys have come round
often enough, a further round costs one comparison each, and is counted instead of posted. What
breaks the round is posted after what was held back, so the books never miss anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Protocol

from gradkeeper.model import Auditor, Event, Finding, Site, Tape
from gradkeeper.model import events as ev
from gradkeeper.watcher.ranks import RankHistory

EventKey = tuple[Any, ...]
"""An event's class, its site, then the values of its fields in order."""

Told = set[tuple[str, Site]]
"""Rules, and the lines they spoke of."""

FIELDS = {
    kind: tuple(field.name for field in fields(kind) if field.name not in ("site", "rank"))
    for kind in ev.KINDS.values()
}
SYNCED = 2 + FIELDS[ev.Backward].index("synced")
"""Its place in a backward's key."""
TURNS = (ev.Step, ev.Batch, ev.Move)
"""Where a round may end."""

ROUNDS = 12
"""So many equal rounds make a pattern; more than any rule waits for."""
LONGEST = 512
MOST_KEPT = 50_000
"""Events of a tape in memory; the older half goes when it is full."""


class Switch(Protocol):
    """Something dear that is needed only while no pattern is known."""

    def place(self) -> None: ...

    def remove(self) -> None: ...


class EventLog:
    def __init__(
        self,
        auditor: Auditor,
        tape: Tape,
        report: Callable[[Finding], bool],
        *,
        rank: int | None = None,
        reads: Switch | None = None,
    ) -> None:
        self.broken: list[Callable[[], None]] = []
        """Told when a pattern is over."""
        self.trained = False
        """A backward or a step was posted."""
        self._auditor = auditor
        self._tape = tape
        self._report = report
        self.rank = rank
        self._reads = reads
        self.history = RankHistory()
        self._keys: list[EventKey] = []
        self._told: list[Told] = []
        """For each key, what the rules said of it and was reported."""
        self._steady_from = 0
        """Rounds may reach back to here; before it, something was thrown away."""
        self.pattern: list[EventKey] = []
        """The keys of one round: a new list for each pattern, an empty one while none is known."""
        self._tells: Told = set()
        """What is reported in each round."""
        self.place = 0
        """Which event of the pattern is next, and how often the pattern has come round."""
        self.times = 0
        self.muted = False
        self.steady = False
        """A pattern is known; an attribute, for it is asked for all the time."""

    def enter(self, key: EventKey, late: Mapping[str, Any] | None = None) -> None:
        """Takes an event. `late` are fields too dear, or too varied, to be compared."""
        if self.pattern:
            if key == self.pattern[self.place]:
                self.place += 1
                if self.place == len(self.pattern):
                    self.place = 0
                    self.times += 1
                return
            self.flush()
        if not self.muted:
            self._post(key, late or {})

    def flush(self) -> None:
        """Posts what was counted or held back."""
        if not self.pattern:
            return
        if self._reads is not None:
            self._reads.place()
        pattern, place, times = self.pattern, self.place, self.times
        self.pattern = []
        self.steady = False
        for tell in self.broken:
            tell()
        self._keys.clear()
        self._told.clear()
        self._steady_from = 0
        if times:
            self._repeat(pattern, times)
        for key in pattern[:place]:
            self._post(key, {}, held_back=True)

    def _repeat(self, pattern: list[EventKey], times: int) -> None:
        again = ev.Again(
            site=pattern[-1][1],
            rank=self.rank,
            length=len(pattern),
            times=times,
            optimizers=tuple(key[2] for key in pattern if key[0] is ev.Step),
            lines=tuple(key[1] for key in pattern if key[0] is ev.Backward),
        )
        self._write(again)
        self.history.repeat(
            sum(key[0] is ev.Backward and bool(key[SYNCED]) for key in pattern), times
        )
        for finding in self._auditor.post(again):
            if self._is_told(finding):
                self._report(finding)

    def _is_told(self, finding: Finding) -> bool:
        """What a region ignores while no pattern is known, it ignores in all rounds of it: they
        are judged later, when the region may have been left."""
        return (finding.rule, finding.site) in self._tells

    def _post(self, key: EventKey, late: Mapping[str, Any], *, held_back: bool = False) -> None:
        event = self._event(key, late)
        self.trained = self.trained or key[0] in (ev.Backward, ev.Step)
        self._write(event)
        self.history.take(event)
        told: Told = set()
        self._keys.append(key)
        self._told.append(told)
        for finding in self._auditor.post(event):
            if held_back and not self._is_told(finding):
                continue
            told.add((finding.rule, finding.site))
            if not self._report(finding):
                told.discard((finding.rule, finding.site))
        if key[0] in TURNS:
            self._look_for_pattern()

    def _event(self, key: EventKey, late: Mapping[str, Any]) -> Event:
        kind = key[0]
        values = dict(zip(FIELDS[kind], key[2:], strict=False))
        event: Event = kind(site=key[1], rank=self.rank, **{**values, **late})
        return event

    def _write(self, event: Event) -> None:
        self._tape.record(event)
        if len(self._tape.events) > MOST_KEPT:
            del self._tape.events[: MOST_KEPT // 2]

    def aside(self, event: Event) -> None:
        """Writes down what is new each time and read by no rule, beside the rounds."""
        if not self.muted:
            self._write(replace(event, rank=self.rank))

    def unsettle(self) -> None:
        """What just came depends on values, not only on the order of calls: no pattern over it."""
        self._steady_from = len(self._keys)

    def _look_for_pattern(self) -> None:
        keys = self._keys
        last = keys[-1]
        end = len(keys) - 1
        for length in range(1, LONGEST):
            if end - length * ROUNDS < self._steady_from:
                break
            if keys[end - length] is not last and keys[end - length] != last:
                continue
            if self._repeats(length):
                self.pattern = keys[-length:]
                self.steady = True
                self._tells = set().union(*self._told[-length:])
                self.place = self.times = 0
                if self._reads is not None:
                    self._reads.remove()
                return
        if len(keys) > 2 * LONGEST * ROUNDS:
            del keys[: LONGEST * ROUNDS]
            del self._told[: LONGEST * ROUNDS]
            self._steady_from = max(0, self._steady_from - LONGEST * ROUNDS)

    def _repeats(self, length: int) -> bool:
        keys = self._keys
        whole = keys[-length * ROUNDS :]
        if whole[:-length] != whole[length:]:
            return False
        # What the rules said must have come round as well.
        told = self._told[-2 * length :]
        return told[:length] == told[length:]
