"""Posts events to ledgers and shows each entry to the rules. Front ends and replay share it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Event
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
        found: list[Finding] = []
        for check in self._checks.get(type(event), ()):
            found += check(entry)
        return entry, found

    def ledger(self, rank: int | None = None) -> Ledger:
        if rank not in self._ledgers:
            self._ledgers[rank] = Ledger()
        return self._ledgers[rank]


def audit(tape: Iterable[Event], rules: Iterable[Rule]) -> Iterator[Finding]:
    """Streams what the rules find, as it happens; fold it with `Findings`."""
    auditor = Auditor(rules)
    for event in tape:
        yield from auditor.post(event)
