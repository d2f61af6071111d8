"""One file: is there anything to rehearse, what comes of it, and what is silenced."""

import ast
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradkeeper.lint import suppressions
from gradkeeper.lint.source_text import decode
from gradkeeper.lint.vocabulary import may_train
from gradkeeper.model.finding import Finding, Findings, Severity
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.model.rule import Rule

LONGEST = 4_000_000
"""Bytes; what is larger is data in the shape of code."""


@dataclass(slots=True)
class Checked:
    findings: list[Finding] = field(default_factory=list)
    unused: list[tuple[int, str]] = field(default_factory=list)
    """Suppressions that silence nothing: line and name."""
    loops: int = 0
    """Training loops in the source."""
    rehearsed: int = 0
    """Those that came to a step."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why the others were not understood."""


def check_source(
    text: bytes | str,
    path: str,
    rules: "Iterable[Rule]",
    *,
    project: Any = None,
    fixes: bool = True,
) -> Checked:
    """What the rules say of one source; suppressions are honoured."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    tree = parse(raw, path)
    if isinstance(tree, Finding):
        return Checked([tree])
    if not may_train(raw):
        return Checked()
    checked = rehearse_tree(tree, path, rules, project=project)
    source, _ = decode(raw)
    comments = suppressions.read(source)
    checked.findings, checked.unused = suppressions.apply(checked.findings, comments)
    if checked.findings and fixes:
        from gradkeeper.lint.fixes import attach

        checked.findings = attach(checked.findings, source, path, tree, rules)
    return checked


def parse(raw: bytes, path: str) -> ast.Module | Finding:
    if len(raw) > LONGEST:
        return ast.Module([], [])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(raw, path)
    except (SyntaxError, ValueError) as error:
        return unparsable(error, path)
    except (RecursionError, MemoryError):
        return unparsable(ValueError("it is nested too deeply"), path)


def unparsable(error: Exception, path: str) -> Finding:
    line = getattr(error, "lineno", None) or 1
    column = getattr(error, "offset", None) or 1
    why = getattr(error, "msg", None) or str(error) or type(error).__name__
    return Finding(
        rule="GK000",
        name="unparsable",
        severity=Severity.ERROR,
        site=Site(path, max(1, line), max(1, column)),
        message=f"cannot be read as Python: {why}",
        detail="nothing in this file was checked",
        remedy="mend the syntax, or leave the file out",
    )


def rehearse_tree(
    tree: ast.Module, path: str, rules: "Iterable[Rule]", *, project: Any = None
) -> Checked:
    from gradkeeper.lint.judge import judge
    from gradkeeper.lint.rehearse import Program, roots
    from gradkeeper.lint.survey import survey

    try:
        program = Program(tree, survey(tree), path, project)
        folded = Findings()
        rules = tuple(rules)
        for runs in roots(program):
            for finding in judge(runs, rules):
                if finding.site.file == path:
                    folded.add(finding)
    except RecursionError:
        return Checked(reasons={"nested too deeply": 1})
    seen = program.survey.training
    rehearsed = [loop for loop in seen if program.finished.get(loop)]
    return Checked(list(folded), [], len(seen), len(rehearsed), _reasons(program, seen))


def _reasons(program: Any, loops: list[ast.AST]) -> dict[str, int]:
    found: dict[str, int] = {}
    for loop in loops:
        if program.finished.get(loop):
            continue
        if loop in program.finished:
            why = "no step that could be followed"
        else:
            why = next(iter(program.reasons), "never reached")
        found[why] = found.get(why, 0) + 1
    return found
