"""The first design of the rehearsal, behind the one function by which `check` calls it.

Each file is rehearsed with what it imports, callers first, so that the next builds on it.
"""

import ast
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gradkeeper.lint.files import Sources
from gradkeeper.lint.parsing import not_checked
from gradkeeper.lint.program import Checked
from gradkeeper.model.finding import Finding, Findings
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.lint.notebook import Notebook
    from gradkeeper.lint.rehearse import Run

TOO_LARGE = "it is too large to rehearse"
Place = tuple[str, int]
"""A file's absolute path, and a line in it."""


def rehearse(
    trees: Mapping[str, ast.Module],
    rules: tuple[Rule, ...],
    *,
    sources: Sources | None = None,
    book: "Notebook | None" = None,
) -> dict[str, Checked]:
    """See `check.rehearse_files`."""
    if any(uses_engine(tree) for tree in trees.values()):
        # Windows of our own engine are known to the second design only.
        from gradkeeper.lint import second_design

        return second_design.rehearse_files(trees, rules, sources=sources, book=book)
    from gradkeeper.lint.project import Project

    seen = Seen()
    found = {}
    for path, tree in trees.items():
        project = None if sources is None else Project(path, sources)
        found[path] = rehearse_tree(tree, path, rules, seen, project=project, book=book)
    for finding in seen.findings:
        # In a file that came before its caller, in a circle of imports, or is only read along.
        here = os.path.abspath(finding.site.file)
        path = next((one for one in found if os.path.abspath(one) == here), finding.site.file)
        known = found.setdefault(path, Checked())
        moved = replace(finding, site=finding.site._replace(file=path))
        known.findings = list(Findings([*known.findings, moved]))
    return found


def uses_engine(tree: ast.Module) -> bool:
    """It imports gradkeeper's engine, as a program on it does at its top."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module in ("gradkeeper", "gradkeeper.engine")
        and any(one.name == "Engine" for one in node.names)
        for node in tree.body
    )


@dataclass(slots=True)
class Seen:
    """What rehearsals saw of files beside their own: the checks of those build on it."""

    findings: list[Finding] = field(default_factory=list)
    entered: set[Place] = field(default_factory=set)
    """Functions that somebody called."""
    loops: dict[Place, bool] = field(default_factory=dict)
    """Training loops that were run; True for those that came to a step."""

    def take(self, path: str) -> list[Finding]:
        """The findings in one file, which leave here."""
        here = os.path.abspath(path)
        taken = [one for one in self.findings if os.path.abspath(one.site.file) == here]
        self.findings = [one for one in self.findings if os.path.abspath(one.site.file) != here]
        return [replace(one, site=one.site._replace(file=path)) for one in taken]


def rehearse_tree(
    tree: ast.Module,
    path: str,
    rules: tuple[Rule, ...],
    seen: Seen,
    *,
    project: Any = None,
    book: "Notebook | None" = None,
) -> Checked:
    """What the rules say of a file. `seen`: what its callers saw; it adds what it sees itself."""
    from gradkeeper.lint.judge import beyond_budget, judge
    from gradkeeper.lint.rehearse import Program, roots
    from gradkeeper.lint.survey import survey

    imported = project.loud_names(tree) if project is not None else frozenset()
    program = Program(tree, survey(tree, imported), path, project)
    _recall(program, seen)
    folded = Findings(seen.take(path))
    elsewhere = Findings()
    for runs in roots(program):
        if book is not None:
            _speak_of_cells(runs, path, book)
        for finding in judge(runs, rules):
            if book is not None:
                finding = book.in_program(finding)
            (folded if finding.site.file == path else elsewhere).add(finding)
        if program.survey.training and beyond_budget(runs):
            folded.add(not_checked(path, TOO_LARGE))
    unseen = _never_entered(program)
    if unseen is not None:
        folded.add(not_checked(path, TOO_LARGE, site=Site(path, unseen.lineno)))
    loops = program.survey.training
    rehearsed = [loop for loop in loops if program.finished.get(loop)]
    if project is not None:
        seen.findings += [finding.rehearsed() for finding in elsewhere]
        _note_others(seen, program, project.trees)
    found = [finding.rehearsed() for finding in folded]
    return Checked(found, [], len(loops), len(rehearsed), _reasons(program, loops))


def _recall(program: Any, seen: Seen) -> None:
    """What callers have run need not be started from here."""
    here = os.path.abspath(program.file)
    for node in program.survey.order:
        if (here, node.lineno) in seen.entered:
            program.visited.add(node)
    for loop in program.survey.training:
        if (here, loop.lineno) in seen.loops:
            program.finished[loop] = seen.loops[here, loop.lineno]


def _note_others(seen: Seen, program: Any, trees: dict[str, ast.Module | None]) -> None:
    for path, tree in trees.items():
        here = os.path.abspath(path)
        for node in ast.walk(tree) if tree is not None else ():
            if node in program.visited:
                seen.entered.add((here, node.lineno))  # type: ignore[attr-defined]
            if node in program.finished:
                place = (here, node.lineno)  # type: ignore[attr-defined]
                seen.loops[place] = program.finished[node] or seen.loops.get(place, False)


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
