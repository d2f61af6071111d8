"""Applying edits to a source text, and showing what they change."""

from collections.abc import Iterable

from gradkeeper.lint.source_text import lines_of
from gradkeeper.model.finding import Edit, Finding

NO_NEWLINE = "\n\\ No newline at end of file\n"


def offsets(text: str) -> list[int]:
    """Where each line begins."""
    found = [0]
    for line in lines_of(text):
        found.append(found[-1] + len(line))
    return found


def replaced(text: str, edits: Iterable[Edit]) -> str:
    starts = offsets(text)
    spans = sorted(
        (starts[e.start[0] - 1] + e.start[1] - 1, starts[e.end[0] - 1] + e.end[1] - 1, e.text)
        for e in edits
    )
    for start, end, new in reversed(spans):
        text = text[:start] + new + text[end:]
    return text


def apply(text: str, findings: Iterable[Finding]) -> tuple[str, list[Finding]]:
    """The text with all fixes that don't touch each other, and the findings they mend."""
    taken: list[Edit] = []
    done: list[Finding] = []
    for finding in findings:
        if finding.fix is None:
            continue
        if any(_touch(edit, other) for edit in finding.fix.edits for other in taken):
            continue
        taken.extend(finding.fix.edits)
        done.append(finding)
    return replaced(text, taken), done


def _touch(one: Edit, other: Edit) -> bool:
    return one.start <= other.end and other.start <= one.end


def diff(old: str, new: str, path: str) -> str:
    from difflib import unified_diff

    lines = unified_diff(lines_of(old), lines_of(new), f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}{NO_NEWLINE}" for line in lines)
