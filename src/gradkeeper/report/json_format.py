"""Findings as JSON. The shape is a contract: whatever changes it for a reader raises VERSION."""

import json
from collections.abc import Iterable
from typing import Any

from gradkeeper.model import Because, Finding
from gradkeeper.model.finding import Edit, Fix
from gradkeeper.report.source import shown_path

VERSION = 1


def render(findings: Iterable[Finding]) -> str:
    records = [as_record(finding) for finding in findings]
    return json.dumps({"version": VERSION, "findings": records}, indent=2) + "\n"


def as_record(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": str(finding.severity),
        "certain": finding.certain,
        "path": shown_path(finding.site.file),
        "line": finding.site.line,
        "column": finding.site.column,
        "cell": finding.cell,
        "message": finding.message,
        "because": [_because(reason) for reason in finding.because],
        "count": finding.count,
        "first_step": finding.first_step,
        "last_step": finding.last_step,
        "rank": finding.rank,
        "when": finding.when,
        "fix": _fix(finding.fix),
    }


def _because(because: Because) -> dict[str, Any]:
    cell = {} if because.cell is None else {"cell": because.cell}
    return {
        "path": shown_path(because.site.file),
        **cell,
        "line": because.site.line,
        "note": because.note,
    }


def _fix(fix: Fix | None) -> dict[str, Any] | None:
    if fix is None:
        return None
    return {"safe": fix.safe, "edits": [_edit(edit) for edit in fix.edits]}


def _edit(edit: Edit) -> dict[str, Any]:
    return {
        "path": shown_path(edit.path),
        "start": list(edit.start),
        "end": list(edit.end),
        "text": edit.text,
    }
