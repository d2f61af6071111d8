"""Findings for a terminal: the line, the account, the way out."""

from collections.abc import Iterable

from gradkeeper.model import Finding, Severity
from gradkeeper.report.source import line_of, shown_path

REMEDY_WIDTH = 64


def render(findings: Iterable[Finding]) -> str:
    shown = list(findings)
    if not shown:
        return "the books balance: nothing found\n"
    parts = [render_one(finding) for finding in shown]
    return "\n".join([*parts, summary(shown)])


def render_one(finding: Finding) -> str:
    """One finding: place, excerpt, account, remedy."""
    lines = [f"{place(finding)}  {finding.rule} {finding.name}{_nuance(finding)}"]
    lines += _excerpt(finding)
    if finding.detail:
        lines.append(f"   {finding.detail}{_times(finding)}")
    if finding.remedy:
        remedy = f"   remedy: {finding.remedy}"
        lines.append(f"{remedy:<{REMEDY_WIDTH}}(gradkeeper explain {finding.rule})")
    return "\n".join(lines) + "\n"


def place(finding: Finding) -> str:
    site = finding.site
    if site.in_cell:
        return str(site)
    cell = "" if finding.cell is None else f"cell {finding.cell}:"
    return f"{shown_path(site.file)}:{cell}{site.line}:{site.column}"


def summary(findings: list[Finding]) -> str:
    """One line that counts by severity."""
    counts = [
        (severity, sum(one.severity == severity for one in findings)) for severity in Severity
    ]
    said = [f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts if count]
    return f"found {', '.join(said)}\n"


def _nuance(finding: Finding) -> str:
    words = [] if finding.severity is Severity.ERROR else [str(finding.severity)]
    words += [] if finding.certain else ["possible"]
    words += [] if finding.rank is None else [f"rank {finding.rank}"]
    return f" ({', '.join(words)})" if words else ""


def _times(finding: Finding) -> str:
    if finding.count == 1:
        return ""
    if finding.first_step is None or finding.first_step == finding.last_step:
        return f" ({finding.count} times)"
    return f" ({finding.count} times, steps {finding.first_step} to {finding.last_step})"


def _excerpt(finding: Finding) -> list[str]:
    text = line_of(finding.site.file, finding.site.line)
    if text is None:
        return [f"   {finding.message}"]
    margin = " " * len(f"{finding.site.line:5}")
    pointer = " " * (finding.site.column - 1)
    return [
        f"{finding.site.line:5} | {text.rstrip()}",
        f"{margin} | {pointer}^ {finding.message}",
    ]
