"""Posts events to ledgers and shows each entry to the rules. Front ends and replay share it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Again, Event
from gradkeeper.model.finding import Finding
from gradkeeper.model.ledger import Ledger
from gradkeeper.model.rule import Check, Rule

E = TypeVar("E", bound=Event)


class Auditor:
    """Judges events one by one, with a ledger of its own for each rank."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._ledgers: dict[int | None, Ledger] = {}
        self._checks: defaultdict[type[Event], list[Check]] = defaultdict(list)
        for rule in rules:
            for kind, check in rule.checks:
                self._checks[kind].append(check)

    def post(self, event: Event) -> list[Finding]:
        """Enters an event and returns what the rules say of it."""
        return self.enter(event)[1]

    def enter(self, event: E) -> tuple[Entry[E], list[Finding]]:
        """The same, with the entry that the rules read."""
        entry = self.ledger(event.rank).post(event)
        if isinstance(event, Again):
            return entry, list(self._repeated(entry, event.times))
        if type(event) not in self._checks:
            return entry, []
        return entry, list(self._judged(entry))

    def _judged(self, entry: Entry[Event]) -> Iterator[Finding]:
        for check in self._checks.get(type(entry.event), ()):
            yield from check(entry)

    def _repeated(self, entry: Entry[Event], times: int) -> Iterator[Finding]:
        """What the rules say of rounds that were counted: as if each of them had been judged."""
        for first in (entered for some in entry.rounds[:1] for entered in some):
            yield from self._judged(first)
        for first, second in zip(*entry.rounds[:2], strict=True) if entry.rounds[1:] else ():
            for finding in self._judged(second):
                steps = (times - 2) * (second.step - first.step)
                last = None if finding.last_step is None else finding.last_step + steps
                yield replace(finding, count=times - 1, last_step=last)

    def ledger(self, rank: int | None = None) -> Ledger:
        if rank not in self._ledgers:
            self._ledgers[rank] = Ledger()
        return self._ledgers[rank]


def audit(tape: Iterable[Event], rules: Iterable[Rule]) -> Iterator[Finding]:
    """Streams what the rules find, as it happens; fold it with `Findings`."""
    auditor = Auditor(rules)
    for event in tape:
        yield from auditor.post(event)
