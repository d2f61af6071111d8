"""The playground's Python: one text in, JSON out. Runs in the browser, under Pyodide."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradkeeper import __version__
from gradkeeper.lint import check_source
from gradkeeper.lint.explore import roots
from gradkeeper.lint.fixes import diff, mend
from gradkeeper.lint.imports import Project
from gradkeeper.lint.program import Checked
from gradkeeper.lint.run import Program, Run
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.report import rule_document
from gradkeeper.report.source import forget
from gradkeeper.report.statement import statement
from gradkeeper.rules import ALL

FILE = "train.py"
RULES = {rule.code: rule for rule in ALL}


@dataclass(slots=True)
class Loop:
    """A text, and what the linter says of it."""

    text: str
    checked: Checked

    @property
    def findings(self) -> list[Finding]:
        return [one for one in self.checked.findings if one.severity is not Severity.INFO]


def version() -> str:
    return __version__


def examples() -> str:
    """What each rule calls wrong, where the source can tell."""
    found = [
        {"rule": rule.code, "name": rule.name, "code": block.code.replace("  # <-", "")}
        for rule in ALL
        for block in rule.blocks
        if block.kind == "bad" and block.side != "runtime" and rule.severity is not Severity.INFO
    ]
    return json.dumps(found)


def check(text: str) -> str:
    Path(FILE).write_text(text)  # the statement quotes its lines
    forget()
    loop = Loop(text, check_source(text, FILE, ALL))
    mended = mend(text.encode(), loop.findings, _again, unsafe=False)
    return json.dumps(
        {
            "said": _said(loop),
            "findings": [_told(one) for one in loop.findings],
            "diff": diff(mended.old, mended.new, FILE) if mended.fixed else "",
            "mended": mended.new,
            "statement": _statement(loop),
        }
    )


def _again(raw: bytes) -> list[Finding]:
    return check_source(raw, FILE, ALL).findings


def _said(loop: Loop) -> str:
    count = len(loop.findings)
    if count:
        return f"{count} finding{'s' if count > 1 else ''}"
    if not loop.checked.loops:
        return "Nothing found: no training loop was seen"
    if loop.checked.rehearsed < loop.checked.loops:
        why = next(one.why for one in loop.checked.training if one.why)
        return f"Nothing found, but not all of it was understood: {why}"
    return "Nothing found"


def _told(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": str(finding.severity),
        "line": finding.line,
        "message": finding.message,
        "detail": finding.detail,
        "remedy": finding.remedy,
        "when": finding.when,
        "because": [{"line": one.site.line, "note": one.note} for one in finding.because],
        "document": rule_document.plain(RULES[finding.rule]),
    }


def _statement(loop: Loop) -> str:
    """Of the rehearsal that shows most of what was found; nothing where none came to a step."""
    runs = _runs(loop.text)
    lines = {(one.rule, one.line) for one in loop.findings}

    def worth(run: Run) -> tuple[int, int]:
        shown = {(rule, line) for rule, _, line in run.findings}
        return len(lines & shown), -len(run.tape)

    stepping = [run for run in runs if run.steps]
    if not stepping:
        return ""
    return statement(max(stepping, key=worth).tape, ALL, loop.findings, title=FILE)


def _runs(text: str) -> list[Run]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    program = Program(Project({FILE: tree}, None), tuple(ALL))
    return [run for runs in roots(program) for run in runs]
