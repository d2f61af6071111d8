"""What one run answers to the questions that the source leaves open."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gradkeeper.lint.interpreter.values import Condition

Mode = Literal[
    "yes",
    "no",
    "once",
    "at first",
    "once not",
    "periodic",
    "later yes",
    "later no",
    "while waiting",
]
"""How a question of chance is answered: always alike, otherwise in one round or the first time,
every N rounds, otherwise as soon as there were as many rounds as an epoch has, or yes just where
gradients wait for a step."""
ONCE_AT = 2
"""The time of asking at which "once" falls: a window has begun, and another one follows."""
ENOUGH = 3
"""Batches that tell what is done for each of them from what is done once or twice."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run answers to open questions: all that makes it differ from another run."""

    settings: Mapping[Hashable, bool] = field(default_factory=dict)
    first: Mapping[Hashable, bool] = field(default_factory=dict)
    """What the first run answered, for settings that this plan leaves alone."""
    chance: Mapping[Hashable, Mode] = field(default_factory=dict)
    window: int = 1
    """What stands for the number of micro-batches in a window, where the source doesn't tell."""
    rounds: int = ENOUGH
    """Batches in an epoch, where the source doesn't tell."""
    fault: Hashable | None = None
    """The try block in which an exception is caught."""

    def but(self, **changes: Any) -> Plan:
        names = ("settings", "first", "chance", "window", "rounds", "fault")
        return Plan(**{name: changes.get(name, getattr(self, name)) for name in names})


@dataclass(slots=True)
class Question:
    """An open condition that a run met, and its answer."""

    condition: Condition
    key: Hashable
    fixed: bool
    answer: bool
    times: int = 0
    periodic: bool = False
    """It may hold every so often, as what counts rounds does."""
    rare: bool = False
    """A counter divided by a known number: it never holds each time."""
    once: bool = False
    """A counter that equals a number: it will, one day."""
    bound: bool = False
    """A counter on either side of a number: before a certain time, and after it."""
    rises: bool = False
    """Such a question is answered no at first, and yes from a certain time on."""
    line: int = 0


def _every(plan: Plan) -> int:
    """After so many rounds something holds again that does every so often."""
    return max(2, plan.window)


def by_chance(
    mode: Mode | None, question: Question, plan: Plan, *, late: bool, waiting: bool
) -> bool:
    if mode is None and question.rare:
        mode = "periodic"
    if mode is None:
        return question.answer
    if mode == "yes":
        return True
    if mode == "no":
        return False
    if mode == "while waiting":
        return waiting
    if mode in ("later yes", "later no"):
        return late == (mode == "later yes")
    if mode == "periodic":
        return question.times % _every(plan) == 0
    if mode == "at first":
        return question.times == 1
    return (question.times == ONCE_AT) == (mode == "once")
