"""Comparisons, and what can be known of them."""

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from gradkeeper.lint import expressions
from gradkeeper.lint.rehearsal import MOST_GATE, Rehearsal
from gradkeeper.lint.syntax import called_name
from gradkeeper.lint.tensors import opaque_parts
from gradkeeper.lint.values import Grad, Opaque, Value, shortened

COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
GROWING = re.compile(r"append|push|put|add|store|save|remember|insert|record|observe")

SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def compare(r: Rehearsal, node: ast.Compare) -> Value:
    left = expressions.evaluate(r, node.left)
    if len(node.ops) != 1:
        for one in node.comparators:
            expressions.evaluate(r, one)
        return Opaque(expressions.text(r, node))
    right = expressions.evaluate(r, node.comparators[0])
    kind = type(node.ops[0])
    if r.frame.survey and node in r.frame.survey.gating and isinstance(left, int):
        r.saw_gate(right)
    if kind in (ast.Is, ast.IsNot):
        return _is(r, node, left, right, negated=kind is ast.IsNot)
    if kind in (ast.In, ast.NotIn):
        return _in(r, node, left, right, negated=kind is ast.NotIn)
    if kind in ORDERED and _is_filling(r, node, left, right):
        return Opaque(expressions.text(r, node))
    plain = (int, float, str, tuple, type(None))
    if isinstance(left, plain) and isinstance(right, plain):
        try:
            return COMPARE[kind](left, right)
        except TypeError:
            return Opaque(expressions.text(r, node))
    name = expressions.called(r, node.left, left)
    other = expressions.called(r, node.comparators[0], right)
    return Opaque(shortened(f"{name} {SIGNS[kind]} {other}"))


def _is_filling(r: Rehearsal, node: ast.Compare, left: Value, right: Value) -> bool:
    """`len(memory) < 64`, `count > CAPACITY` in a loop: a rehearsal ends long before that is so."""
    survey = r.frame.survey
    if not (isinstance(left, int) and isinstance(right, int) and left < right and r.loops):
        return False
    if survey is None or node in survey.bounds:
        return False
    if node in survey.gating and right <= MOST_GATE:
        return False
    if isinstance(node.left, ast.Call):
        return any(GROWING.match(name) for name in survey.methods.get(_measured(node.left), ()))
    return right > MOST_GATE and _last_name(node.left) in survey.growing


def _measured(call: ast.Call) -> str:
    """`memory` of `len(memory)` and of `self.memory.size()`."""
    if called_name(call) == "len" and call.args:
        return _last_name(call.args[0])
    return _last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", None) or getattr(node, "id", ""))


def _is(r: Rehearsal, node: ast.Compare, left: Value, right: Value, *, negated: bool) -> Value:
    if right is None and isinstance(left, Grad):
        left.param.guarded = True
        r.guarded.update(node for node in left.param.nodes if node.single)
        return negated
    if isinstance(left, Opaque) or isinstance(right, Opaque):
        if right is None and isinstance(left, Opaque) and (left.role or left.node or left.flow):
            return negated
        word = "is not" if negated else "is"
        one, other = (
            expressions.called(r, node.left, left),
            expressions.called(r, node.comparators[0], right),
        )
        return Opaque(shortened(f"{one} {word} {other}"))
    same = left is right or (isinstance(left, (bool, int, str)) and left == right)
    return same is not negated


def _in(r: Rehearsal, node: ast.Compare, left: Value, right: Value, *, negated: bool) -> Value:
    if isinstance(right, (list, tuple, dict, str)) and isinstance(left, (str, int)):
        if isinstance(right, dict) or not opaque_parts(right if not isinstance(right, str) else ()):
            try:
                return (left in right) is not negated
            except TypeError:
                pass
    word = "not in" if negated else "in"
    one, other = (
        expressions.called(r, node.left, left),
        expressions.called(r, node.comparators[0], right),
    )
    return Opaque(shortened(f"{one} {word} {other}"))
