"""A rule: a code, a name, its document, and what to look at in which kind of entry."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Event
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.site import Site

E = TypeVar("E", bound=Event)
Check = Callable[[Entry[Any]], Iterator[Finding]]

FENCE = re.compile(r"^```python (bad|good)(?: (runtime|static))?\n(.*?)^```$", re.M | re.S)
MARK = "# <-"


@dataclass(frozen=True, slots=True)
class Block:
    """An example out of a rule's document. `side` names the only front end that can judge it."""

    kind: str
    side: str | None
    code: str

    @property
    def marked(self) -> list[int]:
        """The lines that must be reported."""
        return [n for n, line in enumerate(self.code.splitlines(), 1) if MARK in line]


@dataclass(frozen=True, slots=True)
class Rule:
    code: str
    name: str
    severity: Severity
    document: str
    checks: list[tuple[type[Event], Check]] = field(default_factory=list)

    def at(
        self, *kinds: type[Event]
    ) -> Callable[[Callable[[Entry[E]], Iterator[Finding]]], Callable[..., Iterator[Finding]]]:
        """Registers a check for entries of these events."""

        def register(check: Callable[[Entry[E]], Iterator[Finding]]) -> Check:
            self.checks.extend((kind, check) for kind in kinds)
            return check

        return register

    def found(
        self,
        entry: Entry[Event],
        message: str,
        *,
        detail: str,
        remedy: str,
        site: Site | None = None,
        because: Iterable[Because] = (),
        severity: Severity | None = None,
    ) -> Finding:
        return Finding(
            rule=self.code,
            name=self.name,
            severity=severity or self.severity,
            site=site or entry.event.site,
            message=message,
            detail=detail,
            remedy=remedy,
            because=tuple(because),
            first_step=entry.step or None,
            last_step=entry.step or None,
            rank=entry.event.rank,
        )

    @property
    def summary(self) -> str:
        return self.document.strip().splitlines()[0]

    @property
    def blocks(self) -> list[Block]:
        return [Block(*found) for found in FENCE.findall(self.document)]
