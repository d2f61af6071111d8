"""Which way to go where the source doesn't tell: one answer per question and run, all in turn.

A rehearsal is run from the start for each path. A question is the text of a condition, so that
`if args.fp16` gets the same answer wherever it is asked.
"""

from collections import deque
from dataclasses import dataclass, field

MOST_PATHS = 12


@dataclass(slots=True)
class Choices:
    """The answers of one run; what was not foreseen is answered by its default."""

    script: dict[str, bool] = field(default_factory=dict)
    asked: dict[str, bool] = field(default_factory=dict)

    def ask(self, question: str, default: bool = True) -> bool:
        known = self.asked.get(question)
        if known is None:
            known = self.asked[question] = self.script.get(question, default)
        return known


@dataclass(slots=True)
class Explorer:
    """Hands out scripts: first the default, then each answer turned alone, then pairs, ..."""

    limit: int = MOST_PATHS
    runs: int = 0
    _waiting: deque[dict[str, bool]] = field(default_factory=lambda: deque([{}]))
    _known: set[frozenset[tuple[str, bool]]] = field(default_factory=set)

    def next(self) -> Choices | None:
        if not self._waiting or self.runs >= self.limit:
            return None
        self.runs += 1
        return Choices(self._waiting.popleft())

    def learn(self, choices: Choices) -> None:
        """Plans the runs that differ in one answer from this one."""
        for question, answer in choices.asked.items():
            if question in choices.script:
                continue
            turned = {**choices.script, question: not answer}
            key = frozenset(turned.items())
            if key not in self._known:
                self._known.add(key)
                self._waiting.append(turned)

    @property
    def complete(self) -> bool:
        return not self._waiting
