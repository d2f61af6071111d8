"""From many runs to findings: what holds on every run, under one setting, or only on some.

Runs are compared here: which of them deny a finding of another, and what the two have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace

from gradkeeper.lint.closed_world import FROM_ABSENCE
from gradkeeper.lint.doubts import may_speak
from gradkeeper.lint.interpreter.plan import Mode
from gradkeeper.lint.interpreter.values import Constant
from gradkeeper.lint.libraries.tensors import Finite
from gradkeeper.lint.run import Key, Run
from gradkeeper.model.finding import Finding, Severity

BY_CHANCE: frozenset[Mode] = frozenset({"yes", "no", "later yes", "later no", "while waiting"})
OF_TAILS = frozenset({"GK202", "GK203"})
"""Rules about what a window holds when its loop ends."""
OF_RHYTHM = frozenset({"GK102", "GK201", "GK205", "GK304", "GK401"})
"""Rules about what is left undone: a batch that is left out for its numbers is none of it, nor is
one that was interrupted."""
OF_FILES = frozenset({"GK404"})
"""Rules about what is written in one place and read in another."""
OF_EVERY_ROUND = frozenset({"GK604"})
"""Rules about what each round does: what happens in one of them is none of it."""
UNTOLD = "some of its options are set so"
"""One of several makes a finding go away, and there was no time left to find out which."""
OPPOSITE = {"==": "!=", "is": "is not", "in": "not in", "<": ">="}
MIRRORED = {"<": ">", ">=": "<="}
"""`args.n > 5` is asked as `5 < args.n`, and told as it was written."""
CALLED = ("isinstance", "hasattr")


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
    if run.plan.fault is not None and finding.rule in OF_RHYTHM | OF_TAILS | FROM_ABSENCE:
        return False  # what one interrupted round lacks
    if finding.rule in OF_TAILS and run.counts_samples:
        return False  # nor how the last window ends, where its length is not known
    if finding.rule in OF_RHYTHM | OF_TAILS and any(_leaves_one_out(run)):
        return False  # nor what one batch does that is left out for its numbers
    if finding.rule in FROM_ABSENCE and any(_is_never_good(run)):
        return False  # nor what is never done where they all are
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
            when = when or _branch(key, run, runs) or _longer_windows(key, run, runs)
            return replace(run.findings[key], when=when)
    return replace(finding, certain=False, severity=Severity.INFO)


def _setting(key: Key, run: Run, runs: list[Run]) -> str | None:
    """The setting under which a run's finding holds: "" for all, None if no single one tells."""
    against = without(run, key, runs)
    if not against:
        return ""
    told = run.telling.get(key)
    if told is not None:
        names = [*_others_that_tell(told, run, against), told]
        return " and ".join(_as_text(run, name) for name in names)
    telling = [
        name
        for name, answer in run.settings.items()
        if all(other.settings.get(name, answer) != answer for other in against)
    ]
    likeliest = nearest(telling, run, key, runs)
    if len(likeliest) > 1:
        return UNTOLD
    return _as_text(run, likeliest[0]) if likeliest else None


def _others_that_tell(told: Hashable, run: Run, against: list[Run]) -> Iterator[Hashable]:
    """Beside one setting that makes a finding go away by itself, the others that do so as well:
    `if args.each or args.first: optimizer.zero_grad()` does harm where both are false."""
    for name, answer in run.settings.items():
        same = {key: own for key, own in run.settings.items() if key != name}
        if name != told and any(
            other.settings.get(name, answer) != answer
            and all(other.settings.get(key, own) == own for key, own in same.items())
            for other in against
        ):
            yield name


def _branch(key: Key, run: Run, runs: list[Run]) -> str | None:
    """The innermost setting in whose branch the line of a finding lies.

    What has to hold for the program to train at all goes without saying: `if args.do_train`. And
    where both branches come by the line, as when each calls the function, it is the fault of none.
    """
    for name in reversed(run.under.get(key[1:], ())):
        if name in run.questions and _is_choice(name, run, runs):
            return None if _found_either_way(name, run, key, runs) else _as_text(run, name)
    return None


def _longer_windows(key: Key, run: Run, runs: list[Run]) -> str | None:
    """What the program sets to 1 has to be raised for a fault that only longer windows have."""
    if any(key in other.findings for other in runs if not other.widened):
        return None
    return " and ".join(f"{name} > 1" for name in run.widened) or None


def _found_either_way(name: Hashable, run: Run, key: Key, runs: list[Run]) -> bool:
    answer = run.questions[name].answer
    return any(
        key in other.findings and other.settings.get(name, answer) != answer for other in runs
    )


def _is_choice(name: Hashable, run: Run, runs: list[Run]) -> bool:
    """There is training without it: elsewhere in the run, or in one that has it otherwise."""
    answer = run.questions[name].answer
    return any(name not in run.under.get(place, ()) for place in run.where_it_steps) or any(
        other.spends and other.settings.get(name, answer) != answer for other in runs
    )


def _as_text(run: Run, name: Hashable) -> str:
    question = run.questions[name]
    condition = question.condition
    left, right, sign = condition.left.text, condition.right, condition.sign
    answer = "true" if question.answer else "false"
    if right is not None and sign in CALLED:
        return f"{sign}({left}, {right.text}) is {answer}"
    if right is None or sign not in OPPOSITE:
        return f"{condition.text} is {answer}"
    sign = sign if question.answer else OPPOSITE[sign]
    if sign in MIRRORED and isinstance(condition.left, Constant):
        return f"{right.text} {MIRRORED[sign]} {left}"
    return f"{left} {sign} {right.text}"


def by_nearness(names: list[Hashable], run: Run, key: Key, runs: list[Run]) -> list[Hashable]:
    """Settings, the likeliest cause of a finding first."""
    return sorted(names, key=_likelihood(run, key, runs))


def nearest(names: list[Hashable], run: Run, key: Key, runs: list[Run]) -> list[Hashable]:
    """The likeliest of them; several, where none is likelier than the others."""
    order = _likelihood(run, key, runs)
    first = min(map(order, names), default=None)
    return [name for name in names if order(name) == first]


def _likelihood(run: Run, key: Key, runs: list[Run]) -> Callable[[Hashable], tuple[bool, bool]]:
    """How far a setting is from being the cause of a finding.

    One that a run with the finding has otherwise is none, unless it is one of several. One in whose
    branch a line of the finding lies is likelier than one that was asked somewhere else.
    """
    near = {name for line in lines_of(run.findings[key]) for name in run.under.get(line, ())}
    having = [
        other for other in runs if key in other.findings and same_scenario(run, other, key[0])
    ]

    def order(name: Hashable) -> tuple[bool, bool]:
        answer = run.settings[name]
        either_way = any(other.settings.get(name, answer) != answer for other in having)
        return either_way, name not in near

    return order


def lines_of(finding: Finding) -> Iterator[tuple[str, int]]:
    """The line of a finding, and those that it names as its reasons."""
    yield finding.site.file, finding.site.line
    for reason in finding.because:
        yield reason.site.file, reason.site.line


def without(run: Run, key: Key, runs: list[Run]) -> list[Run]:
    """The runs in which the same happens on purpose, and a finding is not made."""
    return [
        other for other in runs if denies(other, run, key) and same_scenario(run, other, key[0])
    ]


def refuted(run: Run, key: Key, runs: list[Run]) -> bool:
    """Under the same setting, chance can also have it that the line does no harm.

    Or that it is not come to, where the fault is that something is thrown away time and again:
    `if loss > limit: optimizer.zero_grad()`.
    """
    return any(
        (denies(other, run, key) or _keeps(other, run, key) or _saves_nothing(other, run, key))
        and same_setting(run, other, key[0])
        for other in runs
    )


def _keeps(other: Run, run: Run, key: Key) -> bool:
    """The other run has the gradients that this one throws away, and none is lost."""
    lost = run.findings[key].where("credited")
    return (
        key[0] == "GK102"
        and key not in other.findings
        and lost is not None
        and (lost.file, lost.line) in other.lines
        and other.goes_on
    )


def _saves_nothing(other: Run, run: Run, key: Key) -> bool:
    """What is left when the other run ends was not saved, which is where this one has its fault:
    `if loss < best: torch.save(...)`, in the last round or not."""
    return (
        key[0] == "GK401"
        and run.findings[key].where("stepped") is None
        and key[1:] not in other.lines
    )


def denies(other: Run, run: Run, key: Key) -> bool:
    """The other run came by the line of a finding, and nothing was wrong with it there.

    One that leaves its loop at the first step shows nothing of what comes after a step; one that
    never writes a file shows nothing of what comes of reading it.
    """
    if key[0] in OF_FILES and not other.lines.issuperset(lines_of(run.findings[key])):
        return False
    return (
        key not in other.findings
        and key[1:] in other.lines
        and other.spends
        and (other.goes_on or not run.goes_on)
    )


def compared(having: list[Run], runs: list[Run], rule: str) -> list[Run]:
    """Those beside which settings were tried the other way, or all where there are none.

    Windows of one micro-batch and of several are two scenarios, and settings are changed in one:
    the runs of the other tell nothing of them.
    """
    found = [
        run
        for run in having
        if any(same_scenario(run, other, rule) and other.settings != run.settings for other in runs)
    ]
    return found or having


def same_setting(run: Run, other: Run, rule: str) -> bool:
    """The two differ in what chance answered, and in nothing that was chosen."""
    return all(
        other.settings.get(key, answer) == answer for key, answer in run.settings.items()
    ) and (same_scenario(run, other, rule) or _comes_later(run, other, rule))


def same_scenario(run: Run, other: Run, rule: str) -> bool:
    """What is rehearsed on purpose happens in both."""
    return _same_plan(run, other) and _on_purpose(run, rule) == _on_purpose(other, rule)


def _same_plan(run: Run, other: Run) -> bool:
    return other.plan.window == run.plan.window and other.plan.fault == run.plan.fault


def _comes_later(run: Run, other: Run, rule: str) -> bool:
    """What a run lacks is there in the one that goes on until a counter has come to its number:
    `if epoch == 5: body.requires_grad_(True)`."""
    once = {
        (key, mode)
        for key, mode in _on_purpose(other, rule)
        if key not in run.plan.chance and key in other.questions and other.questions[key].once
    }
    purpose = _on_purpose(other, rule) - once
    return rule in FROM_ABSENCE and _same_plan(run, other) and _on_purpose(run, rule) == purpose


def _on_purpose(run: Run, rule: str) -> set[tuple[Hashable, Mode]]:
    """What happens once, or every so often: scenarios, not chance.

    Beside a window that is counted otherwise, what happens every so often is chance, too. And for
    what is left at the end of a loop, so is the round in which a counter comes to its number.
    """
    chance = BY_CHANCE | {"periodic"} if run.plan.window > 1 else BY_CHANCE
    return {
        (key, mode)
        for key, mode in run.plan.chance.items()
        if mode not in chance and not _by_the_way(run, key, rule)
    }


def _leaves_one_out(run: Run) -> Iterator[Hashable]:
    """What makes a batch unfit in one round of this run."""
    for key, mode in run.plan.chance.items():
        question = run.questions.get(key)
        if question is not None and isinstance(question.condition.left, Finite):
            if mode in ("once", "once not"):
                yield key


def _is_never_good(run: Run) -> Iterator[Hashable]:
    """What makes every batch unfit in this run."""
    for key, mode in run.plan.chance.items():
        question = run.questions.get(key)
        left = question.condition.left if question is not None else None
        if isinstance(left, Finite) and mode == ("no" if left.good else "yes"):
            yield key


def _by_the_way(run: Run, key: Hashable, rule: str) -> bool:
    """What happens once is not what a rule about ends of windows, or checkpoints, speaks of."""
    question = run.questions.get(key)
    if question is None:
        return False
    if isinstance(question.condition.left, Finite):
        return rule in OF_TAILS or rule in OF_RHYTHM
    return question.once and (rule in OF_TAILS or rule in OF_EVERY_ROUND)
