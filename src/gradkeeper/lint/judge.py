"""Audits tapes and weighs what the rules say: on every path, or on some."""

from collections.abc import Iterable
from dataclasses import replace

from gradkeeper.lint.rehearse import Run
from gradkeeper.model import Findings, audit
from gradkeeper.model.events import Backward
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

ON_FAULTS = ("GK605",)
"""What a path with an exception on it may speak of; the rest is told by the ordinary paths."""
DISCARDS = ("GK102",)
"""What a path refutes that runs the same backward and passes the line by."""
BY_RANKS = ("GK501",)
"""What depends on a test that picks the micro-batch to synchronise on."""
ON_ALL_STEPS = ("GK107",)
"""What only a run can tell in which no step is out of sight."""
BUDGETS = ("too large to rehearse to the end", "nested too deeply")
"""Doubts that are a matter of size."""
Key = tuple[str, str, int]


def judge(runs: Iterable[Run], rules: Iterable[Rule]) -> list[Finding]:
    """What holds on each path that comes to the line is certain; the rest is possible."""
    runs = list(runs)
    trusted = [run for run in runs if not run.doubts]
    if 2 * len(trusted) < len(runs):
        return []
    rules = tuple(rules)
    heard: list[dict[Key, Finding]] = []
    for run in trusted:
        told = audit(run.tape, rules)
        folded = Findings(one for one in told if _may_speak(one, run))
        heard.append({(one.rule, one.site.file, one.site.line): one for one in folded})
    lines = [{(e.site.file, e.site.line) for e in run.tape} for run in trusted]
    found: dict[Key, Finding] = {}
    for said in heard:
        for key, finding in said.items():
            if key not in found:
                found[key] = _weigh(key, finding, trusted, heard, lines)
    return list(found.values())


def beyond_budget(runs: list[Run]) -> bool:
    """Whether these runs tell nothing because most of them came to no end."""
    cut = [run for run in runs if any(why in BUDGETS for why in run.doubts)]
    return 2 * len(cut) > len(runs)


def _may_speak(finding: Finding, run: Run) -> bool:
    if run.faulty:
        return finding.rule in ON_FAULTS
    if run.steps_elsewhere and finding.rule in ON_ALL_STEPS:
        return False
    return finding.rule not in BY_RANKS or run.windowed or not _picks(run, finding)


def _picks(run: Run, finding: Finding) -> bool:
    """The backward is synchronised in some rounds: which ones, only a known window can tell."""
    site = finding.where("credited")
    return any(
        isinstance(event, Backward) and event.synced and event.site == site for event in run.tape
    )


def _weigh(
    key: Key,
    finding: Finding,
    runs: list[Run],
    heard: list[dict[Key, Finding]],
    lines: list[set[tuple[str, int]]],
) -> Finding:
    spoken_of = {key[1:]}
    credited = finding.where("credited")
    if finding.rule in DISCARDS and credited:
        spoken_of.add((credited.file, credited.line))
    without = [
        run
        for run, said, reached in zip(runs, heard, lines, strict=True)
        if key not in said and spoken_of & reached and run.spends
    ]
    having = [run for run, said in zip(runs, heard, strict=True) if key in said]
    without = [run for run in without if run.faulty == having[0].faulty]
    if not without:
        return finding
    branch = _difference(having, without)
    because = finding.because
    if branch:
        because = (*because, Because("condition", finding.site, f"only where {branch}"))
    return replace(finding, certain=False, severity=Severity.INFO, because=because)


def _difference(having: list[Run], without: list[Run]) -> str:
    """The answer that all paths with the finding share and none without has."""
    shared = set(having[0].choices.items())
    for run in having[1:]:
        shared &= set(run.choices.items())
    for run in without:
        shared -= set(run.choices.items())
    for question, answer in shared:
        return f"{question} is {answer}" if " " not in question else f"{question}: {answer}"
    return ""
