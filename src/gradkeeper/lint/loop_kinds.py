"""What each loop of a file is: over batches, around other loops, over parameters, with a step."""

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradkeeper.lint.syntax import (
    FUNCTIONS,
    LOOPS,
    called_name,
    children,
    function_of,
    names_parameters,
)
from gradkeeper.lint.vocabulary import SCALER_NAME

if TYPE_CHECKING:
    from gradkeeper.lint.survey import Survey

FETCH = re.compile(r"^next$|next_batch|get_batch|sample|fetch|get_data", re.I)
MOVING = {"backward", "manual_backward", "step", "zero_grad", "optimizer_step"}
RANDOM = frozenset({"randn", "rand", "randint", "randperm", "normal", "uniform", "choice"})


def _names(loops: Iterable[ast.AST], parents: dict[ast.AST, ast.AST]) -> set[str]:
    """Of the functions that hold them."""
    functions = (function_of(loop, parents) for loop in loops)
    return {one.name for one in functions if one is not None}


def describe_loops(found: "Survey", parents: dict[ast.AST, ast.AST]) -> None:
    steps = found.reaching({"step", "optimizer_step"})
    loops = [node for node in found.loud if isinstance(node, LOOPS)]
    rounds = [loop for loop in loops if not _over_owned(loop, found)]
    looping = found.reaching(_names(rounds, parents))
    moving = found.reaching(MOVING)
    random = found.reaching(set(RANDOM)) - moving
    for loop in loops:
        _describe(loop, found, steps, looping, moving, random)


def _describe(
    loop: ast.AST,
    found: "Survey",
    steps: set[str],
    looping: set[str],
    moving: set[str],
    random: set[str],
) -> None:
    stack: list[tuple[ast.AST, bool]] = [
        (one, True)
        for one in (*loop.body, *loop.orelse)  # type: ignore[attr-defined]
    ]
    while stack:
        node, direct = stack.pop()
        if isinstance(node, FUNCTIONS):
            continue
        if isinstance(node, LOOPS) and node in found.loud and not _over_owned(node, found):
            if _moves(node, moving):
                found.outer.add(loop)
            direct = False
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            found.rounds.add(loop)
        if isinstance(node, ast.Call):
            name = called_name(node)
            if name in looping:
                found.outer.add(loop)
            if name in moving or SCALER_NAME.search(name):
                found.rounds.add(loop)
            if name in steps:
                found.stepping.add(loop)
                if direct and name == "step":
                    found.closing.add(loop)
            if direct and FETCH.search(name):
                found.fetching.add(loop)
            if direct and name in random:
                found.drawing.add(loop)
        stack.extend((child, direct) for child in children(node))


def _over_owned(loop: ast.AST, found: "Survey") -> bool:
    """A loop over parameters or over optimizers: its rounds are no batches."""
    if not isinstance(loop, ast.For):
        return False
    known = found.over_owned.get(loop)
    if known is None:
        known = found.over_owned[loop] = names_parameters(loop.iter) or _only_its_own(loop, found)
    return known


def _only_its_own(loop: ast.For, found: "Survey") -> bool:
    """What it steps and zeroes is what it runs over, and there is no backward in it."""
    targets = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    owned = False
    for statement in loop.body:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call):
                continue
            name = called_name(node)
            if name in found.backs or SCALER_NAME.search(name):
                return False
            if name in ("step", "zero_grad") and isinstance(node.func, ast.Attribute):
                parts = (node.func.value, *node.args)
                if not any(isinstance(one, ast.Name) and one.id in targets for one in parts):
                    return False
                owned = True
    return owned


def _moves(loop: ast.AST, moving: set[str]) -> bool:
    for node in ast.walk(loop):
        if isinstance(node, ast.Call):
            name = called_name(node)
            if name in moving or SCALER_NAME.search(name):
                return True
    return False
