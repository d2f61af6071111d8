"""Findings as a fragment of HTML, for notebooks: inline styles only, in light and dark."""

from collections.abc import Iterable
from html import escape

from gradkeeper.model import Finding, Severity
from gradkeeper.report.text import place, render_one, summary

STYLE = "border-left: 4px solid {}; padding-left: 0.8em; margin: 0.6em 0"
# Said outright: Jupyter sets such text in a proportional font, and wraps it, so that the mark below
# a line points elsewhere.
EXCERPT = "background: none; font-family: monospace; white-space: pre; overflow-x: auto"
COLOURS = {Severity.ERROR: "#d33", Severity.WARNING: "#b80", Severity.INFO: "#58a"}


def render(findings: Iterable[Finding]) -> str:
    shown = list(findings)
    if not shown:
        return "<p>gradkeeper: nothing found</p>"
    parts = "".join(_one(finding) for finding in shown)
    return f"<div><p>gradkeeper: {escape(summary(shown).strip())}</p>{parts}</div>"


def _one(finding: Finding) -> str:
    _, *story = render_one(finding).splitlines()
    title = f"{finding.rule} {finding.name}"
    when = "" if finding.when is None else f" where {finding.when}"
    return (
        f'<details open style="{STYLE.format(COLOURS[finding.severity])}">'
        f"<summary><b>{escape(title)}</b> {escape(str(finding.severity))}, "
        f"<code>{escape(place(finding))}</code>{escape(when)}</summary>"
        f'<pre style="{EXCERPT}">{escape(chr(10).join(story))}</pre></details>'
    )
