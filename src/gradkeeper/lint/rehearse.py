"""From the trees of a program to what is said of each of its files.

All files are rehearsed together, from where nobody calls; see explore.py.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gradkeeper.lint.certainty import weigh
from gradkeeper.lint.coverage import CUT_SHORT
from gradkeeper.lint.explore import roots
from gradkeeper.lint.files import Sources
from gradkeeper.lint.imports import Project
from gradkeeper.lint.parsing import not_checked
from gradkeeper.lint.program import Checked, TrainingLoop
from gradkeeper.lint.run import Program
from gradkeeper.model.finding import Finding, Findings
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.lint.notebook import Notebook


def rehearse_files(
    trees: Mapping[str, ast.Module],
    rules: tuple[Rule, ...],
    *,
    sources: Sources | None = None,
    book: "Notebook | None" = None,
) -> dict[str, Checked]:
    """What the rules say of the files of one program, and of others they import.

    `sources`: what those others hold; None where they are out of reach. `book`: the notebook that
    the one file is the program of; findings speak of its cells, and have sites in the program.
    """
    program = Program(Project(trees, sources), rules)
    if book is not None:
        program.relocate = book.in_cell
        program.whole = not book.broken
    folded = Findings()
    for runs in roots(program):
        for finding in weigh(runs):
            folded.add(book.in_program(finding) if book is not None else finding)
    found = {path: Checked() for path in trees}
    for finding in folded:
        known = found.setdefault(finding.site.file, Checked())
        known.findings.append(finding.rehearsed())
    for path in trees:
        checked = found[path]
        checked.training = list(_training(program, path, book))
        checked.findings += _left_over(path, checked.training)
    return found


def _training(program: Program, path: str, book: "Notebook | None") -> Iterator[TrainingLoop]:
    """The loops of a file, and the functions that a framework calls for each batch."""
    coverage, facts = program.coverage, program.project.facts
    functions = coverage.driven(facts.functions_in(path))
    for node in (*facts.told_in.get(path, ()), *functions):
        line: int = getattr(node, "lineno", 1)
        yield coverage.told(node, book.shown(line) if book else str(line))


def _left_over(path: str, training: list[TrainingLoop]) -> Iterator[Finding]:
    """What is said of a file whose loops were more than the budget allows."""
    left = [loop for loop in training if loop.why in CUT_SHORT]
    if left:
        line = int(left[0].place.rpartition(":")[2])
        detail = f"{len(left)} of its {len(training)} training loops were not rehearsed to a step"
        yield not_checked(path, left[0].why, site=Site(path, line), detail=detail)
