"""Findings as GitHub workflow commands, which become annotations on the lines."""

from collections.abc import Iterable

from gradkeeper.model.finding import Finding, Severity
from gradkeeper.report.source import shown_path

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(findings: Iterable[Finding]) -> str:
    return "".join(f"{_line(finding)}\n" for finding in findings)


def _line(finding: Finding) -> str:
    site = finding.site
    place = f"file={_property(shown_path(site.file))},line={site.line},col={site.column}"
    title = _property(f"{finding.rule} {finding.name}")
    cell = "" if finding.cell is None else f"cell {finding.cell}: "
    where = "" if finding.when is None else f", where {finding.when}"
    message = f"{cell}{finding.message}{where}"
    if finding.remedy:
        message += f"\nremedy: {finding.remedy}"
    return f"::{LEVELS[finding.severity]} {place},title={title}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
