"""Findings for a terminal: the line, the account, the way out."""

from collections.abc import Iterable
from unicodedata import east_asian_width

from gradkeeper.model import Finding, Severity
from gradkeeper.report.paint import PLAIN, Paint
from gradkeeper.report.source import line_of, shown_path

REMEDY_WIDTH = 64
WIDEST = 200
"""Letters of a source line; of a longer one, those around the place are shown."""
LEAD = 60
CUT = "..."


def render(
    findings: Iterable[Finding], *, paint: Paint = PLAIN, quiet: bool = False, nothing: str = ""
) -> str:
    """All findings and a summary; `quiet` leaves the summary out.

    `nothing` is what is said where there are none, if there is more to say than that.
    """
    shown = list(findings)
    if not shown:
        return "" if quiet else f"{nothing or paint.good('nothing found')}\n"
    parts = [render_one(finding, paint=paint) for finding in shown]
    if not quiet:
        parts.append(summary(shown))
    return "\n".join(parts)


def render_one(finding: Finding, *, paint: Paint = PLAIN) -> str:
    """One finding: place, excerpt, account, remedy."""
    code = paint.by(finding.severity, f"{finding.rule} {finding.name}")
    lines = [f"{paint.bold(place(finding))}  {code}{_nuance(finding)}"]
    lines += _excerpt(finding, paint)
    if finding.detail:
        often = times(finding)
        lines.append(f"   {finding.detail}{f' ({often})' if often else ''}")
    if finding.remedy:
        remedy = f"   remedy: {finding.remedy}"
        gap = " " * max(2, REMEDY_WIDTH - len(remedy))
        lines.append(f"{remedy}{gap}{paint.dim(f'(gradkeeper explain {finding.rule})')}")
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
        (severity, sum(finding.severity == severity for finding in findings))
        for severity in Severity
    ]
    said = [f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts if count]
    return f"found {', '.join(said)}\n"


def _nuance(finding: Finding) -> str:
    words = [] if finding.severity is Severity.ERROR else [str(finding.severity)]
    words += [] if finding.certain else ["possible"]
    words += [] if finding.rank is None else [f"rank {finding.rank}"]
    said = f" ({', '.join(words)})" if words else ""
    return said if finding.when is None else f"{said} where {finding.when}"


def times(finding: Finding) -> str:
    """How often and when, if more than once."""
    if finding.count == 1:
        return ""
    if finding.first_step is None or finding.first_step == finding.last_step:
        return f"{finding.count} times"
    first, last = finding.first_step, finding.last_step
    if last is not None and finding.count == last - first + 1:
        return f"{finding.count} times, steps {first} to {last}"
    return f"{finding.count} times between steps {first} and {last}"


def _excerpt(finding: Finding, paint: Paint) -> list[str]:
    text = line_of(finding.site.file, finding.site.line, finding.cell)
    if text is None:
        return [f"   {finding.message}"]
    number = f"{finding.site.line:5}"
    margin = " " * len(number)
    text, column = _around(text.rstrip(), finding.site.column)
    pointer = "".join(map(_blank, text[: column - 1]))
    marker = paint.by(finding.severity, f"^ {finding.message}")
    return [
        f"{paint.dim(f'{number} |')} {_printable(text)}",
        f"{paint.dim(f'{margin} |')} {pointer}{marker}",
    ]


def _around(text: str, column: int) -> tuple[str, int]:
    """What is shown of a line, and the column in it: data may be written on one of megabytes."""
    if len(text) <= WIDEST:
        return text, column
    start = max(0, column - 1 - LEAD)
    end = start + WIDEST
    before, after = CUT if start else "", CUT if end < len(text) else ""
    return f"{before}{text[start:end]}{after}", column - start + len(before)


def _blank(letter: str) -> str:
    """As wide as the letter, so that the marker stands below its column."""
    if letter == "\t":
        return letter
    return "  " if east_asian_width(letter) in "WF" else " "


def _printable(text: str) -> str:
    """A source line must not command the terminal."""
    return "".join(
        letter if letter.isprintable() or letter == "\t" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )
