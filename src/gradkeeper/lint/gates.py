"""Conditions that say in which rounds of a loop something happens: how many make a window."""

import ast
from typing import TYPE_CHECKING

from gradkeeper.lint.syntax import function_of

if TYPE_CHECKING:
    from gradkeeper.lint.survey import Survey

BRANCHES = (ast.If, ast.IfExp, ast.While)
HOLDERS = (ast.Assign, ast.keyword, ast.Return)


def find_gates(order: list[ast.AST], parents: dict[ast.AST, ast.AST], found: "Survey") -> None:
    for node in order:
        if isinstance(node, BRANCHES):
            if node in found.loud:
                _gates_in(node.test, found, compares=isinstance(node, ast.If))
            elif isinstance(node, ast.If) and _passes_over(node, parents, found):
                _gates_in(node.test, found, compares=False)
        elif isinstance(node, HOLDERS):
            if isinstance(node.value, (ast.Compare, ast.BoolOp)):
                _gates_in(node.value, found, compares=False)


def _passes_over(node: ast.If, parents: dict[ast.AST, ast.AST], found: "Survey") -> bool:
    """`if i % 4: continue`, or `return` from a function that steps below."""
    if any(isinstance(one, ast.Continue) for one in node.body):
        return True
    return isinstance(node.body[-1], ast.Return) and function_of(node, parents) in found.loud


def _gates_in(test: ast.AST, found: "Survey", *, compares: bool) -> None:
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            found.gating.add(node)
            _note_gate(node.right, found)
        elif compares and isinstance(node, ast.Compare) and len(node.ops) == 1:
            if isinstance(node.ops[0], (ast.Eq, ast.GtE)):
                found.gating.add(node)


def _note_gate(node: ast.expr, found: "Survey") -> None:
    if isinstance(node, ast.Name):
        found.gates.add(node.id)
    elif isinstance(node, ast.Attribute):
        found.gates.add(node.attr)
