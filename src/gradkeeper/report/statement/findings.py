"""Findings as HTML: what happens, the lines that explain it, the way out."""

import re
from collections.abc import Iterator
from html import escape

from gradkeeper.model import Finding, Severity
from gradkeeper.report.source import line_of, shown_path
from gradkeeper.report.text import place, times

AROUND = 2
"""Lines of source shown before and after each one that matters."""


def verdict(findings: list[Finding], *, seen: bool, lost: int = 0, how: str = "") -> str:
    """The headline; `seen` is False where there was nothing to judge, `lost` counts what was
    thrown away all the same, `how` the script ended, if not well."""
    many = sum(finding.counts for finding in findings)
    if many:
        return f"{many} finding{'s' * (many > 1)}"
    if not seen:
        return "No training was seen"
    if how:
        return f"Nothing found before the script {how}"
    return "Nothing wrong was found" if lost else "The books balance"


def brief(findings: list[Finding]) -> str:
    """One line for each, below the headline."""
    lines = "".join(
        f'<li class="{finding.severity}"><a href="#finding-{number}">'
        f"<code>{escape(place(finding))}</code> {escape(finding.rule)} {escape(finding.name)}</a>"
        f": {_words(finding.message)}</li>"
        for number, finding in _gravest_first(findings)
        if finding.counts
    )
    return f'<ol class="brief">{lines}</ol>' if lines else ""


def render(findings: list[Finding]) -> str:
    return "\n".join(_card(finding, number) for number, finding in _gravest_first(findings))


def _gravest_first(findings: list[Finding]) -> list[tuple[int, Finding]]:
    order = list(Severity)
    return sorted(enumerate(findings), key=lambda finding: order.index(finding[1].severity))


def _card(finding: Finding, number: int) -> str:
    often = times(finding)
    rank = "" if finding.rank is None else f"rank {finding.rank}"
    when = "" if finding.when is None else f"where {finding.when}"
    told = [aside for aside in (when, often, rank) if aside]
    asides = "".join(f'<span class="aside">{escape(said)}</span>' for said in told)
    doubt = "" if finding.certain else ", possible"
    rest = "".join(_rest(finding))
    return (
        f'<article class="finding {finding.severity}" id="finding-{number}" tabindex="-1"'
        f' data-severity="{finding.severity}">'
        f'<header><span class="badge">{finding.severity}{doubt}</span>'
        f"<h3><code>{escape(finding.rule)}</code> {escape(finding.name)}</h3>"
        f'<span class="place">{escape(place(finding))}</span>{asides}</header>'
        f'<p class="message">{_words(_sentence(finding.message))}</p>{_excerpts(finding)}{rest}'
        f'<footer><button type="button" data-jump="{number}">Show on the timeline</button>'
        f"<code>gradkeeper explain {escape(finding.rule)}</code></footer></article>"
    )


def _sentence(message: str) -> str:
    # `step() applies …`: a function keeps its name.
    begins = message if "(" in message.partition(" ")[0] else f"{message[:1].upper()}{message[1:]}"
    return f"{begins}."


def _words(text: str) -> str:
    """Names between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _rest(finding: Finding) -> Iterator[str]:
    if finding.detail:
        yield f'<p class="detail">{_words(finding.detail)}</p>'
    if finding.remedy:
        yield f'<p class="remedy"><b>Remedy:</b> {_words(finding.remedy)}</p>'


def _excerpts(finding: Finding) -> str:
    """The source around the line and its reasons, file by file."""
    notes: dict[str, dict[int, list[str]]] = {}
    notes.setdefault(finding.site.file, {})[finding.site.line] = [finding.message]
    for because in finding.because:
        site = because.site
        notes.setdefault(site.file, {}).setdefault(site.line, []).append(because.note)
    named = len(notes) > 1
    return "".join(
        _excerpt(file, lines, finding.site.line if file == finding.site.file else 0, named=named)
        for file, lines in notes.items()
    )


def _excerpt(file: str, notes: dict[int, list[str]], fault: int, *, named: bool) -> str:
    if all(line_of(file, line) is None for line in notes):
        said = "; ".join(f"line {line}: {', '.join(some)}" for line, some in sorted(notes.items()))
        return (
            f'<p class="missing">{escape(said)}. The source of {escape(shown_path(file))} could not'
            " be read when this page was written.</p>"
        )
    rows = []
    last = 0
    for number, text in _around(file, notes):
        if last and number != last + 1:
            rows.append('<tr class="gap"><td></td><td>⋮</td></tr>')
        last = number
        rows.append(_row(number, text, notes.get(number, []), fault=number == fault))
    caption = f"<caption>{escape(shown_path(file))}</caption>" if named else ""
    return f'<table class="excerpt">{caption}<tbody>{"".join(rows)}</tbody></table>'


def _around(file: str, notes: dict[int, list[str]]) -> list[tuple[int, str]]:
    """The lines that are shown; an empty one is no good end."""
    near = {line + off for line in notes for off in range(-AROUND, AROUND + 1)}
    lines = [(number, line_of(file, number)) for number in sorted(near) if number > 0]
    shown = [(number, text) for number, text in lines if text is not None]
    for end in (0, -1):
        while shown and not shown[end][1].strip() and shown[end][0] not in notes:
            shown.pop(end)
    return shown


def _row(number: int, text: str, notes: list[str], *, fault: bool) -> str:
    kind = "fault" if fault else "reason" if notes else "quiet"
    said = "".join(f'<span class="note">{_words(note)}</span>' for note in notes)
    return (
        f'<tr class="{kind}"><td class="number">{number}</td>'
        f"<td><code>{escape(text.rstrip())}</code>{said}</td></tr>"
    )
