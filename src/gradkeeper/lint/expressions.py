"""What an expression stands for. One small function per kind of node."""

import ast
from collections.abc import Callable
from typing import Any

from gradkeeper.lint import arithmetic, attributes, calls, comparisons, items
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import join, mix, scaled
from gradkeeper.lint.values import (
    MISSING,
    External,
    Function,
    Opaque,
    Optim,
    Param,
    Scaler,
    Value,
    shortened,
)


def evaluate(r: Rehearsal, node: ast.expr) -> Value:
    r.operations += 1
    if r.operations > r.budget:
        r.spend()
    kind = type(node)
    if kind is ast.Constant:
        return node.value  # type: ignore[attr-defined]
    if kind is ast.Name:
        value = r.frame.names.get(node.id, MISSING)  # type: ignore[attr-defined]
        if value is not MISSING:
            return value
    handler = HANDLERS.get(kind)
    if handler is None:
        return Opaque(text(r, node))
    return handler(r, node)


def text(r: Rehearsal, node: ast.AST) -> str:
    """A short name for an expression, the same each time."""
    if isinstance(node, ast.Name):
        return node.id
    texts = r.frame.survey.texts if r.frame.survey else {}
    known: str | None = texts.get(node)
    if known is None:
        known = _dotted(node)
        if known is None:
            known = f"{type(node).__name__}@{getattr(node, 'lineno', 0)}"
        texts[node] = known
    return known


def _dotted(node: ast.AST) -> str | None:
    try:
        return shortened(ast.unparse(node))
    except (RecursionError, ValueError, AttributeError):
        return None


def called(r: Rehearsal, node: ast.AST, value: Value) -> str:
    """How to speak of a value in a question: unknown ones by their own name."""
    return value.name if isinstance(value, Opaque) else text(r, node)


def truth(r: Rehearsal, value: Value) -> bool | None:
    if isinstance(value, Opaque):
        return None
    if isinstance(value, External) and "." in value.name:
        return None  # a name out of a module, as it may be a setting; a module itself is true
    if isinstance(value, (bool, int, float, str, list, tuple, dict)) or value is None:
        return bool(value)
    return True


def decide(r: Rehearsal, node: ast.expr) -> bool:
    """Goes one way at a test; asks where it must."""
    if isinstance(node, ast.BoolOp):
        wanted = isinstance(node.op, ast.Or)
        return wanted if any(decide(r, one) is wanted for one in node.values) else not wanted
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not decide(r, node.operand)
    value = evaluate(r, node)
    known = truth(r, value)
    if known is None:
        return answer(r, value.name)
    return known


def answer(r: Rehearsal, question: str) -> bool:
    """Negations are the same question."""
    for no, yes in ((" is not ", " is "), (" != ", " == "), (" not in ", " in ")):
        if no in question:
            return not r.choices.ask(question.replace(no, yes, 1), default=False)
    default = not question.endswith(" is None")
    return r.choices.ask(question, default=default)


def test(r: Rehearsal, node: ast.expr) -> tuple[bool | None, str]:
    """What a test is known to give; else None, and the question that it poses."""
    if isinstance(node, ast.BoolOp):
        wanted = isinstance(node.op, ast.Or)
        open_question = ""
        for one in node.values:
            known, question = test(r, one)
            if known is wanted:
                return wanted, ""
            if known is None:
                open_question = open_question or question
        return (None, open_question) if open_question else (not wanted, "")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        known, question = test(r, node.operand)
        return (None if known is None else not known), question
    value = evaluate(r, node)
    known = truth(r, value)
    return known, (value.name if known is None else "")


def _constant(r: Rehearsal, node: ast.Constant) -> Value:
    return node.value


def _name(r: Rehearsal, node: ast.Name) -> Value:
    value = r.frame.look(node.id)
    if value is not MISSING:
        return value
    if node.id in calls.BUILTINS:
        return External(node.id)
    value = Opaque(node.id)
    if r.frame.survey and node.id in r.frame.survey.gates:
        return 2
    module = r.frame.module or r.frame
    module.names[node.id] = value
    return value


def _attribute(r: Rehearsal, node: ast.Attribute) -> Value:
    r.here = node
    return attributes.get(r, evaluate(r, node.value), node.attr, node)


def _call(r: Rehearsal, node: ast.Call) -> Value:
    return calls.call(r, node)


def _unary(r: Rehearsal, node: ast.UnaryOp) -> Value:
    value = evaluate(r, node.operand)
    if isinstance(node.op, ast.Not):
        known = truth(r, value)
        return Opaque(f"not {called(r, node, value)}") if known is None else not known
    if isinstance(node.op, ast.USub):
        if isinstance(value, (int, float)):
            return -value
        if isinstance(value, Opaque):
            return scaled(r, shortened(f"-{value.name}"), value, 1.0, None)
    return value if isinstance(node.op, ast.UAdd) else mix(r, text(r, node), [value])


def _bool(r: Rehearsal, node: ast.BoolOp) -> Value:
    wanted = isinstance(node.op, ast.Or)
    unknown: list[Opaque] = []
    value: Value = None
    for one in node.values:
        value = evaluate(r, one)
        known = truth(r, value)
        if known is wanted:
            return value if not unknown else Opaque(_asked(unknown, wanted))
        if known is None:
            unknown.append(value)
    if unknown:
        if len(unknown) == 1:
            return unknown[0]
        return mix(r, _asked(unknown, wanted), unknown)
    return value


def _asked(unknown: list[Opaque], wanted: bool) -> str:
    word = " or " if wanted else " and "
    return shortened(word.join(one.name for one in unknown))


def _if(r: Rehearsal, node: ast.IfExp) -> Value:
    known, question = test(r, node.test)
    if known is None:
        if _is_optional(node) or (r.frame.survey and node in r.frame.survey.loud):
            known = decide(r, node.test)
        else:
            return _either(r, node, question)
    return evaluate(r, node.body if known else node.orelse)


def _either(r: Rehearsal, node: ast.IfExp, question: str) -> Value:
    """One of two values; an optimizer that the first side builds stands for both."""
    events = len(r.tape)
    value = evaluate(r, node.body)
    if len(r.tape) != events:
        return value
    return join(question, value, evaluate(r, node.orelse))


def _is_optional(node: ast.IfExp) -> bool:
    """`GradScaler() if args.amp else None`: what it is decides on the code that follows."""
    sides = (node.body, node.orelse)
    nothing = any(isinstance(one, ast.Constant) and one.value is None for one in sides)
    return nothing and any(isinstance(one, ast.Call) for one in sides)


def _sequence(r: Rehearsal, node: ast.List | ast.Tuple | ast.Set) -> Value:
    found: list[Value] = []
    for one in node.elts:
        if isinstance(one, ast.Starred):
            value = evaluate(r, one.value)
            if isinstance(value, (list, tuple)):
                found.extend(value)
            else:
                found.append(value)
        else:
            found.append(evaluate(r, one))
    return tuple(found) if isinstance(node, ast.Tuple) else found


def _dict(r: Rehearsal, node: ast.Dict) -> Value:
    found: dict[Value, Value] = {}
    hint = r.hint
    for key, value in zip(node.keys, node.values, strict=True):
        if hint and isinstance(key, ast.Constant):
            r.hint = f"{hint}[{ast.unparse(key)}]"
        result = evaluate(r, value)
        if key is None:
            if isinstance(result, dict):
                found.update(result)
            continue
        name = evaluate(r, key)
        if not isinstance(name, (str, int, float, bool, type(None))):
            name = text(r, key)
        found[name] = result
    return found


def _subscript(r: Rehearsal, node: ast.Subscript) -> Value:
    value = evaluate(r, node.value)
    index = None if isinstance(node.slice, ast.Slice) else evaluate(r, node.slice)
    return items.item(r, value, index, node)


def _lambda(r: Rehearsal, node: ast.Lambda) -> Value:
    return Function(node, r.frame)


def _joined(r: Rehearsal, node: ast.JoinedStr) -> Value:
    if r.frame.survey is not None and node in r.frame.survey.loud:
        for one in node.values:
            if isinstance(one, ast.FormattedValue):
                evaluate(r, one.value)
    return Opaque("text")


def _starred(r: Rehearsal, node: ast.Starred) -> Value:
    return evaluate(r, node.value)


def _walrus(r: Rehearsal, node: ast.NamedExpr) -> Value:
    value = evaluate(r, node.value)
    if isinstance(node.target, ast.Name):
        r.frame.names[node.target.id] = value
    return value


def _await(r: Rehearsal, node: ast.Await) -> Value:
    return evaluate(r, node.value)


def _yield(r: Rehearsal, node: ast.Yield) -> Value:
    value = evaluate(r, node.value) if node.value else None
    if r.frame.yielded is not None:
        r.frame.yielded.append(value)
    if r.frame.around_body is not None:
        body, r.frame.around_body = r.frame.around_body, None
        body(value)
    return Opaque("sent")


def _comprehension(r: Rehearsal, node: Any) -> Value:
    from gradkeeper.lint import comprehensions

    return comprehensions.evaluate(r, node)


HANDLERS: dict[type[ast.AST], Callable[[Rehearsal, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.BinOp: arithmetic.binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool,
    ast.Compare: comparisons.compare,
    ast.IfExp: _if,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.Lambda: _lambda,
    ast.JoinedStr: _joined,
    ast.Starred: _starred,
    ast.NamedExpr: _walrus,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
}

__all__ = ["Optim", "Param", "Scaler", "decide", "evaluate", "test", "text", "truth"]
