"""Findings as SARIF 2.1.0, for code scanning. A rule's help is its own document."""

import json
from collections.abc import Iterable
from typing import Any

from gradkeeper.model.finding import Finding, Fix, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.report import rule_document
from gradkeeper.report.source import line_of, shown_path

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render(findings: Iterable[Finding], rules: Iterable[Rule] = ()) -> str:
    """`rules`: those whose documents are told along, where something is found."""
    shown = list(findings)
    known = {rule.code: rule for rule in rules}
    found = sorted({finding.rule: finding.name for finding in shown}.items())
    order = {code: index for index, (code, _) in enumerate(found)}
    driver = {
        "name": "gradkeeper",
        "rules": [_rule(code, name, known.get(code)) for code, name in found],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, order) for finding in shown],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str, name: str, rule: Rule | None) -> dict[str, Any]:
    described: dict[str, Any] = {"id": code, "name": name}
    if rule is None:
        described["shortDescription"] = {"text": name.replace("-", " ")}
        described["help"] = {"text": f"gradkeeper explain {code}"}
        return described
    described["shortDescription"] = {"text": rule.summary}
    described["fullDescription"] = {"text": rule.summary}
    described["help"] = {
        "text": rule_document.plain(rule),
        "markdown": rule_document.markdown(rule),
    }
    described["defaultConfiguration"] = {"level": LEVELS[rule.severity]}
    described["properties"] = {"tags": ["pytorch", "training"], "precision": "high"}
    return described


def _result(finding: Finding, order: dict[str, int]) -> dict[str, Any]:
    message = _in_cell(finding.cell, finding.message)
    if finding.when is not None:
        message = f"{message}, where {finding.when}"
    if finding.remedy:
        message = f"{message}. Remedy: {finding.remedy}"
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": order[finding.rule],
        "level": LEVELS[finding.severity],
        "message": {"text": message},
        "locations": [_location(finding.site.file, finding.site.line, finding.site.column)],
        "partialFingerprints": {"gradkeeper/v1": _fingerprint(finding)},
        "properties": {"certain": finding.certain, "count": finding.count},
    }
    if finding.when is not None:
        result["properties"]["when"] = finding.when
    if finding.because:
        result["relatedLocations"] = [
            {
                **_location(reason.site.file, reason.site.line, reason.site.column),
                "message": {"text": _in_cell(reason.cell, reason.note)},
            }
            for reason in finding.because
        ]
    if finding.fix is not None:
        result["fixes"] = [_fix(finding.fix, finding.remedy)]
    return result


def _in_cell(cell: int | None, text: str) -> str:
    """A region knows lines of files only: of a notebook, they are counted in the cell named."""
    return text if cell is None else f"cell {cell}: {text}"


def _location(path: str, line: int, column: int) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(path)},
            "region": {"startLine": line, "startColumn": column},
        }
    }


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(shown_path(path).replace("\\", "/"))


def _fingerprint(finding: Finding) -> str:
    line = line_of(finding.site.file, finding.site.line, finding.cell)
    return finding.fingerprint(line or str(finding.site.line))


def _fix(fix: Fix, remedy: str) -> dict[str, Any]:
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in fix.edits:
        region = {
            "startLine": edit.start[0],
            "startColumn": edit.start[1],
            "endLine": edit.end[0],
            "endColumn": edit.end[1],
        }
        replacement = {"deletedRegion": region, "insertedContent": {"text": edit.text}}
        changes.setdefault(edit.path, []).append(replacement)
    return {
        "description": {"text": remedy or "fix"},
        "artifactChanges": [
            {"artifactLocation": {"uri": _uri(path)}, "replacements": replacements}
            for path, replacements in changes.items()
        ],
    }
