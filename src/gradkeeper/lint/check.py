"""One file: is there anything to rehearse, what comes of it, and what is silenced."""

import ast
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gradkeeper.lint import suppress
from gradkeeper.lint.files import decode
from gradkeeper.lint.vocabulary import may_train
from gradkeeper.model.finding import Finding, Findings, Severity
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.lint.notebook import Notebook
    from gradkeeper.lint.rehearse import Run
    from gradkeeper.model.rule import Rule

LONGEST = 4_000_000
"""Bytes; what is larger is data in the shape of code."""
TOO_DEEP = "it is nested too deeply"
TOO_LARGE = "it is too large to rehearse"


@dataclass(slots=True)
class Checked:
    findings: list[Finding] = field(default_factory=list)
    unused: list[tuple[str, str]] = field(default_factory=list)
    """Suppressions that silence nothing: where (`9`, or `cell 3:9`), and name."""
    loops: int = 0
    """Training loops in the source."""
    rehearsed: int = 0
    """Those that came to a step."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why the others were not understood."""
    traceback: str = ""
    """Of the fault in gradkeeper itself that ended this check."""


def guarded(path: str, check: Callable[[], Checked]) -> Checked:
    """The barrier: whatever goes wrong while a file is checked costs that file, and no other."""
    try:
        return check()
    except RecursionError:
        return Checked([not_checked(path, TOO_DEEP)], traceback=_traceback())
    except MemoryError:
        return Checked([not_checked(path, "it needs more memory than there is")])
    except Exception as error:
        why = f"gradkeeper failed on it ({_described(error)})"
        return Checked([not_checked(path, why)], traceback=_traceback())


def _described(error: Exception) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _traceback() -> str:
    from traceback import format_exc

    return format_exc()


def check_source(
    text: bytes | str,
    path: str,
    rules: "Iterable[Rule]",
    *,
    project: Any = None,
    fixes: bool = True,
    book: "Notebook | None" = None,
) -> Checked:
    """What the rules say of one source; suppressions are honoured. Never raises.

    `book`: the notebook whose program the source is. Findings have their sites in the program all
    the same, and only speak of cells.
    """
    return guarded(path, lambda: _check_source(text, path, rules, project, fixes, book))


def _check_source(
    text: bytes | str,
    path: str,
    rules: "Iterable[Rule]",
    project: Any,
    fixes: bool,
    book: "Notebook | None",
) -> Checked:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    tree = parse(raw, path)
    if isinstance(tree, Finding):
        return Checked([tree])
    if not may_train(raw):
        return Checked()
    checked = rehearse_tree(tree, path, rules, project=project, book=book)
    source, _ = decode(raw)
    comments = suppress.read(source)
    checked.findings, unused = suppress.apply(checked.findings, comments)
    checked.unused = [(book.shown(line) if book else str(line), name) for line, name in unused]
    if checked.findings and fixes:
        from gradkeeper.lint.fixes import attach

        checked.findings = attach(checked.findings, source, path, tree, rules)
    return checked


def parse(raw: bytes, path: str) -> ast.Module | Finding:
    if len(raw) > LONGEST:
        return not_checked(path, f"it is larger than {LONGEST // 10**6} MB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(raw, path)
    except (SyntaxError, ValueError) as error:
        return unparsable(error, path, decode(raw)[0])
    except (RecursionError, MemoryError):  # the parser says the latter of the former
        return not_checked(path, TOO_DEEP)


def unparsable(error: Exception, path: str, text: str = "") -> Finding:
    """What is said of a text that this Python cannot read; a later one may be able to."""
    from gradkeeper.lint.newer_syntax import RUNNING, needed

    line = getattr(error, "lineno", None) or 1
    column = getattr(error, "offset", None) or 1
    why = getattr(error, "msg", None) or str(error) or type(error).__name__
    found = Finding(
        rule="GK000",
        name="unparsable",
        severity=Severity.ERROR,
        site=Site(path, max(1, line), max(1, column)),
        message=f"cannot be read as Python: {why}",
        detail="nothing in this file was checked",
        remedy="mend the syntax, or leave the file out",
    )
    version = needed(text)
    if version is None:
        return found
    newer = "{}.{}".format(*version)
    return replace(
        found,
        severity=Severity.WARNING,
        message="needs Python {} to be read; gradkeeper runs on {}.{} here".format(newer, *RUNNING),
        remedy=f"run gradkeeper with Python {newer} or newer",
    )


def not_checked(path: str, why: str, *, site: Site | None = None, detail: str = "") -> Finding:
    return Finding(
        rule="GK001",
        name="not-checked",
        severity=Severity.WARNING,
        site=site or Site(path, 1),
        message=f"could not be checked to the end: {why}",
        detail=detail or "silence about this file means nothing",
        remedy="read it yourself, or --ignore GK001 to accept that",
    )


def rehearse_tree(
    tree: ast.Module,
    path: str,
    rules: "Iterable[Rule]",
    *,
    project: Any = None,
    book: "Notebook | None" = None,
) -> Checked:
    from gradkeeper.lint.judge import beyond_budget, judge
    from gradkeeper.lint.rehearse import Program, roots
    from gradkeeper.lint.survey import survey

    program = Program(tree, survey(tree), path, project)
    folded = Findings()
    rules = tuple(rules)
    for runs in roots(program):
        if book is not None:
            _speak_of_cells(runs, path, book)
        for finding in judge(runs, rules):
            if book is not None:
                finding = book.in_program(finding)
            if finding.site.file == path:
                folded.add(finding)
        if program.survey.training and beyond_budget(runs):
            folded.add(not_checked(path, TOO_LARGE))
    unseen = _never_entered(program)
    if unseen is not None:
        folded.add(not_checked(path, TOO_LARGE, site=Site(path, unseen.lineno)))
    seen = program.survey.training
    rehearsed = [loop for loop in seen if program.finished.get(loop)]
    found = [finding.rehearsed() for finding in folded]
    return Checked(found, [], len(seen), len(rehearsed), _reasons(program, seen))


def _speak_of_cells(runs: "list[Run]", path: str, book: "Notebook") -> None:
    """Rules say `line 4`, or `cell 2 line 4`: so events must know their cells before the audit."""
    for run in runs:
        run.tape = [
            replace(event, site=book.in_cell(event.site)) if event.site.file == path else event
            for event in run.tape
        ]


def _never_entered(program: Any) -> Any:
    """A training loop in a function for which nothing was left of the file's budget."""
    unseen = [loop for loop in program.survey.training if loop not in program.finished]
    for function in program.left:
        for loop in unseen:
            if function.lineno < loop.lineno <= function.end_lineno:
                return loop
    return None


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
