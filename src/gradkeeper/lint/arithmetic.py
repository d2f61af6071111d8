"""Sums and products, of numbers and of losses: by how much a loss was multiplied or divided."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from gradkeeper.lint import attributes, expressions
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import mix, scaled
from gradkeeper.lint.values import Grad, Opaque, Params, Value, shortened

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
SIGNS = {ast.Mod: "%", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//"}
LARGEST = 10**12


def binary(r: Rehearsal, node: ast.BinOp) -> Value:
    left, right = expressions.evaluate(r, node.left), expressions.evaluate(r, node.right)
    kind = type(node.op)
    if kind is ast.Mod and r.frame.survey and node in r.frame.survey.gating:
        r.saw_gate(right)
        if isinstance(left, Opaque) and isinstance(right, int) and right and not left.flow:
            # A counter from elsewhere: it counts the batches, or what is done with them.
            return r.turn % right
    return combine(r, kind, left, right, node)


def combine(
    r: Rehearsal, kind: type[ast.operator], left: Value, right: Value, node: ast.AST
) -> Value:
    if isinstance(left, Grad) or isinstance(right, Grad):
        return attributes.read(r, left if isinstance(left, Grad) else right, node)
    plain = (int, float, str, list, tuple)
    if isinstance(left, plain) and isinstance(right, plain):
        return _compute(r, kind, left, right, node)
    sign = SIGNS.get(kind, "@")
    left_name, right_name = _word(left), _word(right)
    name = shortened(f"{left_name} {sign} {right_name}")
    if kind in (ast.Mult, ast.Div):
        return _weighted(r, kind, left, right, name)
    if kind in (ast.Add, ast.Sub):
        return _added(r, left, right, name)
    return mix(r, name, [left, right])


def _word(value: Value) -> str:
    if isinstance(value, Opaque):
        return value.name
    return str(value) if isinstance(value, (int, float, str)) else type(value).__name__


def _compute(
    r: Rehearsal, kind: type[ast.operator], left: Value, right: Value, node: ast.AST
) -> Value:
    function = BINARY.get(kind)
    if function is None:
        if kind is ast.Pow and isinstance(left, (int, float)) and isinstance(right, (int, float)):
            if abs(left) < 1e4 and abs(right) < 8:
                return _power(r, left, right, node)
        return Opaque(expressions.text(r, node))
    if kind is ast.Mod and isinstance(left, str):
        return Opaque(expressions.text(r, node))
    if kind is ast.Mult and not (
        isinstance(left, (int, float)) and isinstance(right, (int, float))
    ):
        return left if isinstance(left, (list, tuple)) else Opaque(expressions.text(r, node))
    try:
        result = function(left, right)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return Opaque(expressions.text(r, node))
    if isinstance(result, int) and abs(result) > LARGEST:
        return Opaque(expressions.text(r, node))
    return result


def _power(r: Rehearsal, left: float, right: float, node: ast.AST) -> Value:
    """Not of zero with a negative exponent, and no complex number: nobody trains by either."""
    try:
        result = left**right
    except ZeroDivisionError:
        return Opaque(expressions.text(r, node))
    return Opaque(expressions.text(r, node)) if isinstance(result, complex) else result


def _weighted(
    r: Rehearsal, kind: type[ast.operator], left: Value, right: Value, name: str
) -> Value:
    if isinstance(left, Opaque) and isinstance(right, (int, float)):
        if kind is ast.Div:
            factor = 1 / right if right else None
        else:
            factor = right
        return scaled(r, name, left, factor, None)
    if isinstance(right, Opaque) and isinstance(left, (int, float)) and kind is ast.Mult:
        return scaled(r, name, right, left, None)
    if isinstance(left, Opaque) and (left.flow or left.maybe):
        return scaled(r, name, left, None, right)
    if isinstance(right, Opaque) and (right.flow or right.maybe):
        return scaled(r, name, right, None, left)
    return mix(r, name, [left, right])


def _added(r: Rehearsal, left: Value, right: Value, name: str) -> Value:
    if isinstance(left, Params) or isinstance(right, Params):
        sides = [one if isinstance(one, list) else [one] for one in (left, right)]
        return [*sides[0], *sides[1]]
    return mix(r, name, [left, right], keep=True)
