"""From many runs to findings: what holds on every run, under one setting, or only on some."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from gradkeeper.lint.explore import (
    FROM_ABSENCE,
    Key,
    Run,
    compared,
    may_speak,
    nearest,
    refuted,
    without,
)
from gradkeeper.model.finding import Finding, Severity


def weigh(runs: list[Run]) -> Iterator[Finding]:
    """Each finding of these runs once, as certain as they make it."""
    found: dict[Key, list[Run]] = {}
    runs = [run for run in runs if not _cannot_be(run, runs)]
    for run in runs:
        for key, finding in run.findings.items():
            if _speaks(run, finding):
                found.setdefault(key, []).append(run)
    for key, having in found.items():
        yield _weighed(key, having, runs)


def _cannot_be(run: Run, runs: list[Run]) -> bool:
    """It needs what an object has under another setting only: `if is_train: self.optimizer = …`."""
    return any(run.missed & other.provided for other in runs)


def _speaks(run: Run, finding: Finding) -> bool:
    if finding.rule in FROM_ABSENCE and not (run.ended and run.settled):
        return False
    return may_speak(run, finding)


def _weighed(key: Key, having: list[Run], runs: list[Run]) -> Finding:
    finding = having[0].findings[key]
    if finding.severity is Severity.INFO:
        return finding
    telling = compared(having, runs, key[0])
    standing = [run for run in telling if run.verified and not refuted(run, key, runs)]
    for run in standing:
        when = _setting(key, run, runs)
        if when is not None and not (when and finding.rule in FROM_ABSENCE):
            return replace(run.findings[key], when=when or _branch(key, run, runs))
    return replace(finding, certain=False, severity=Severity.INFO)


def _setting(key: Key, run: Run, runs: list[Run]) -> str | None:
    """The setting under which a run's finding holds: "" for all, None if no single one tells."""
    against = without(run, key, runs)
    if not against:
        return ""
    told = run.telling.get(key)
    if told is not None:
        return _as_text(run, told)
    telling = [
        name
        for name, answer in run.settings.items()
        if all(other.settings.get(name, answer) != answer for other in against)
    ]
    likeliest = nearest(telling, run, key, runs)
    if len(likeliest) > 1:
        return UNTOLD
    return _as_text(run, likeliest[0]) if likeliest else None


def _branch(key: Key, run: Run, runs: list[Run]) -> str | None:
    """The innermost setting in whose branch the line of a finding lies.

    What has to hold for the program to train at all goes without saying: `if args.do_train`.
    """
    for name in reversed(run.under.get(key[1:], ())):
        if name in run.questions and _is_choice(name, run, runs):
            return _as_text(run, name)
    return None


def _is_choice(name: Hashable, run: Run, runs: list[Run]) -> bool:
    """There is training without it: elsewhere in the run, or in one that has it otherwise."""
    answer = run.questions[name].answer
    return any(name not in run.under.get(place, ()) for place in run.where_it_steps) or any(
        other.spends and other.settings.get(name, answer) != answer for other in runs
    )


UNTOLD = "some of its options are set so"
"""One of several makes a finding go away, and there was no time left to find out which."""
OPPOSITE = {"==": "!=", "is": "is not", "in": "not in", "<": ">="}


def _as_text(run: Run, name: Hashable) -> str:
    question = run.questions[name]
    condition = question.condition
    if condition.right is None or condition.sign not in OPPOSITE:
        return f"{condition.text} is {'true' if question.answer else 'false'}"
    sign = condition.sign if question.answer else OPPOSITE[condition.sign]
    return f"{condition.left.text} {sign} {condition.right.text}"
