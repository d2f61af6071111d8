"""From the trees of a program to what is said of each of its files.

All files are rehearsed together, from where nobody calls; see explore.py.
"""

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gradkeeper.lint.certainty import weigh
from gradkeeper.lint.explore import Program, roots
from gradkeeper.lint.files import Sources
from gradkeeper.lint.imports import Project
from gradkeeper.lint.parsing import not_checked
from gradkeeper.lint.program import Checked
from gradkeeper.model.finding import Findings
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.lint.notebook import Notebook

TOO_LARGE = "it is too large to rehearse"


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
    folded = Findings()
    for runs in roots(program):
        for finding in weigh(runs):
            folded.add(book.in_program(finding) if book is not None else finding)
    found = {path: Checked() for path in trees}
    for finding in folded:
        known = found.setdefault(finding.site.file, Checked())
        known.findings.append(finding.rehearsed())
    for path, tree in trees.items():
        _count_loops(program, found[path], path, tree)
    return found


def _count_loops(program: Program, checked: Checked, path: str, tree: ast.Module) -> None:
    """How many loops there are, how many came to a step, and why the others did not."""
    loops = program.project.facts.training_in.get(path, [])
    checked.loops = len(loops)
    for loop in loops:
        if id(loop) in program.stepped:
            checked.rehearsed += 1
            continue
        why = "never reached"
        if id(loop) in program.entered:
            why = next(iter(program.reasons), "no step that could be followed")
        elif program.spent:
            why = TOO_LARGE
            line = getattr(loop, "lineno", 1)
            checked.findings.append(not_checked(path, TOO_LARGE, site=Site(path, line)))
        checked.reasons[why] = checked.reasons.get(why, 0) + 1
