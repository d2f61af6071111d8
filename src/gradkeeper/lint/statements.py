"""Running statements. A block gives a signal where control leaves it, else None."""

import ast
from collections.abc import Callable, Iterable
from typing import Any

from gradkeeper.lint import arithmetic, attributes, contexts, definitions, expressions, items, loops
from gradkeeper.lint.nodes import Node
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.strangers import WHICH_OPTIMIZER
from gradkeeper.lint.syntax import called_name
from gradkeeper.lint.tensors import join
from gradkeeper.lint.values import (
    BREAK,
    CONTINUE,
    MISSING,
    Frame,
    Grad,
    Module,
    Opaque,
    Optim,
    Param,
    Return,
    Signal,
    Value,
    base,
)
from gradkeeper.lint.vocabulary import EXITS, OPTIMIZER_NAME, SCHEDULER_NAME
from gradkeeper.lint.words import words
from gradkeeper.model import events as ev

DULL = words(
    """print info debug warning log add_scalar set_description set_postfix write flush display
    add_scalars add_image makedirs seed manual_seed add_argument set_defaults basicConfig"""
)


def block(r: Rehearsal, body: Iterable[ast.stmt]) -> Signal:
    survey = r.frame.survey
    inert = survey.inert if survey is not None else ()
    for statement in body:
        if statement in inert:
            continue
        r.operations += 1
        if r.operations > r.budget:
            r.spend()
        handler = HANDLERS.get(type(statement))
        if handler is not None:
            signal = handler(r, statement)
            if signal is not None:
                return signal
    return None


def assign(r: Rehearsal, target: ast.AST, value: Value, node: ast.AST) -> None:
    if type(value) is Module and r.frame.survey is not None and r.frame.survey.copies:
        _mark_copy(target, value, r.frame.survey.copies)
    if isinstance(target, ast.Name):
        _bind(r, target.id, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(r, target.elts, value, node)
    elif isinstance(target, ast.Attribute):
        attributes.put(r, expressions.evaluate(r, target.value), target.attr, value, node)
    elif isinstance(target, ast.Subscript):
        _put_item(r, target, value)
    elif isinstance(target, ast.Starred):
        assign(r, target.value, value, node)


def _mark_copy(target: ast.AST, module: Module, copies: set[str]) -> None:
    """A network that takes over another one's weights needs no optimizer."""
    name = getattr(target, "attr", None) or getattr(target, "id", None)
    if name in copies and module.node.holds is None:
        module.node.trainable = False


def _bind(r: Rehearsal, name: str, value: Value) -> None:
    frame = r.frame.outer.get(name, r.frame)
    survey = r.frame.survey
    if survey is not None and name in survey.gates and _configurable(value):
        value = 2
    frame.names[name] = value


def _configurable(value: Value) -> bool:
    """A window of one, or of who knows how many: more than one is what the code is written for."""
    if isinstance(value, Opaque):
        return not (value.flow or value.data or value.node or value.role)
    return type(value) is int and value == 1


def _unpack(r: Rehearsal, targets: list[ast.expr], value: Value, node: ast.AST) -> None:
    if isinstance(value, (list, tuple)) and len(value) == len(targets):
        for target, one in zip(targets, value, strict=True):
            assign(r, target, one, node)
        return
    for index, target in enumerate(targets):
        if isinstance(target, ast.Starred):
            assign(r, target.value, Opaque("rest", data=True), node)
        elif isinstance(value, (list, tuple)) and index < len(value):
            assign(r, target, value[index], node)
        else:
            part = items.item(r, value, index, node)
            if isinstance(part, Opaque) and isinstance(target, (ast.Name, ast.Attribute)):
                hints = value.hints if isinstance(value, Opaque) else ()
                part = _named(part, expressions.text(r, target), hints)
            assign(r, target, part, node)


def _named(part: Opaque, name: str, hints: tuple[Node, ...] = ()) -> Opaque:
    """What a call gave is known by the name it is given; an optimizer is no tensor."""
    if part.node or part.role or part.leaf or part.data:
        return part
    if OPTIMIZER_NAME.search(base(name)) and not SCHEDULER_NAME.search(base(name)):
        return Opaque(name, hints=part.hints or hints, given=part.given)
    if not (part.flow or part.maybe):
        part.name = name
    return part


def _put_item(r: Rehearsal, target: ast.Subscript, value: Value) -> None:
    container = expressions.evaluate(r, target.value)
    blank = isinstance(value, Opaque) and value.blank()
    if not isinstance(container, dict) and not blank:
        r.changes += 1
    if isinstance(target.slice, ast.Slice):
        if isinstance(container, Opaque):
            _put_into(container, None, value)
        return
    index = expressions.evaluate(r, target.slice)
    if isinstance(value, Optim) and isinstance(container, Opaque) and isinstance(index, Opaque):
        r.doubt(WHICH_OPTIMIZER)
    if isinstance(container, Module):
        if container.items is None:
            container.items = {}
        container = container.items
    if isinstance(container, dict):
        if isinstance(index, (str, int, float, bool)):
            container[index] = value
        else:
            container[expressions.text(r, target.slice)] = value
    elif isinstance(container, list) and isinstance(index, int):
        if -len(container) <= index < len(container):
            container[index] = value
    elif isinstance(container, Opaque):
        _put_into(container, index, value)


def _put_into(container: Opaque, index: Value, value: Value) -> None:
    """`out[mask] = net(x)`: a tensor that is filled in part depends on what it is filled with."""
    if isinstance(value, Opaque) and (value.flow or value.maybe):
        container.flow |= value.flow
        container.maybe = container.maybe or value.maybe
        container.data = False
    elif isinstance(index, (str, int)):
        container.attrs = container.attrs or {}
        container.attrs[f"[{index!r}]"] = value


def _expression(r: Rehearsal, node: ast.Expr) -> Signal:
    value = node.value
    if isinstance(value, ast.Constant):
        return None
    if isinstance(value, ast.Call):
        name = called_name(value)
        if name in DULL and r.frame.survey is not None and node not in r.frame.survey.loud:
            return None
        r.hint = ""
    expressions.evaluate(r, value)
    return None


def _assign(r: Rehearsal, node: ast.Assign) -> Signal:
    value = _for_target(r, node.targets[0], node.value)
    for target in node.targets:
        assign(r, target, value, node)
    return None


def _for_target(r: Rehearsal, target: ast.AST, source: ast.expr) -> Value:
    """The value, which is known by the name it is given: of a pair, each by its own."""
    if isinstance(target, ast.Tuple) and isinstance(source, ast.Tuple):
        starred = any(isinstance(one, ast.Starred) for one in (*target.elts, *source.elts))
        if len(target.elts) == len(source.elts) and not starred:
            pairs = zip(target.elts, source.elts, strict=True)
            return tuple(_for_target(r, one, part) for one, part in pairs)
    r.hint = ""
    if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
        r.hint = expressions.text(r, target)
    value = expressions.evaluate(r, source)
    if r.hint and isinstance(value, Opaque) and isinstance(source, ast.Call):
        value = _named(value, r.hint)
    r.hint = ""
    return value


def _annotated(r: Rehearsal, node: ast.AnnAssign) -> Signal:
    if node.value is not None:
        r.hint = expressions.text(r, node.target)
        assign(r, node.target, expressions.evaluate(r, node.value), node)
        r.hint = ""
    return None


def _augmented(r: Rehearsal, node: ast.AugAssign) -> Signal:
    old = expressions.evaluate(r, node.target)
    new = expressions.evaluate(r, node.value)
    if isinstance(old, Grad):
        names = attributes.param_accounts(r, old.param)
        guarded = attributes.is_guarded(r, old.param)
        adds = isinstance(node.op, (ast.Add, ast.Sub))
        r.post(ev.Adjust(site=r.site(node), accounts=names, guarded=guarded, adds=adds))
        return None
    param = old if isinstance(old, Param) else None
    if isinstance(old, Opaque) and old.leaf is not None and not r.grad:
        param = Param((old.leaf,))
    if param is not None:
        contexts.move(r, param, node, uses_gradient=mentions_grad(node.value))
        return None
    assign(r, node.target, arithmetic.combine(r, type(node.op), old, new, node), node)
    return None


def mentions_grad(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == "grad" for one in ast.walk(node))


def _if(r: Rehearsal, node: ast.If) -> Signal:
    guarded = set(r.guarded)
    signal = _branch(r, node)
    r.guarded = guarded
    return signal


def _branch(r: Rehearsal, node: ast.If) -> Signal:
    known, question = expressions.test(r, node.test)
    survey = r.frame.survey
    if known is None:
        if r.in_params:
            return _for_some(r, node)
        if survey is not None and node in survey.loud:
            known = expressions.decide(r, node.test)
    if known is None:
        return _either(r, node, question)
    return block(r, node.body if known else node.orelse)


def _for_some(r: Rehearsal, node: ast.If) -> Signal:
    """A test on a single parameter: the body is done to some of them."""
    partial = r.partial
    r.partial = True
    for body in (node.body, node.orelse):
        if leaves(body) is None:
            block(r, body)
    r.partial = partial
    return None


def leaves(body: list[ast.stmt]) -> type[ast.stmt] | None:
    """How a block ends, if it does not go on below."""
    if not body:
        return None
    last = body[-1]
    if isinstance(last, (ast.Raise, ast.Return, ast.Break, ast.Continue)):
        return type(last)
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        if called_name(last.value) in EXITS:
            return ast.Raise
    return None


def _either(r: Rehearsal, node: ast.If, question: str) -> Signal:
    """Neither side makes an event: both may have run, and control goes on below."""
    first, second = leaves(node.body), leaves(node.orelse)
    if first is not None:
        if first is ast.Return:
            r.frame.skipped.append(node)
        return block(r, node.orelse)
    if second is ast.Raise:
        return block(r, node.body)
    before = dict(r.frame.names)
    events = len(r.tape)
    signal = block(r, node.body)
    if signal is not None or len(r.tape) != events:
        return signal
    if second is not None:
        return None
    changed = _changes(before, r.frame.names)
    r.frame.names = dict(before) if node.orelse else before
    signal = block(r, node.orelse)
    other = _changes(before, r.frame.names) if node.orelse else {}
    for name in changed.keys() | other.keys():
        old = before.get(name, MISSING)
        sides = [side.get(name, old) for side in (changed, other)]
        known = [side for side in sides if side is not MISSING]
        _bind(r, name, known[0] if len(known) == 1 else join(question, *known))
    return signal


def _changes(before: dict[str, Value], after: dict[str, Value]) -> dict[str, Value]:
    if after == before:
        return {}  # what most bodies leave: told in one call, without a look at each name
    return {name: value for name, value in after.items() if value is not before.get(name, MISSING)}


def returned(r: Rehearsal, statement: ast.stmt) -> Value:
    """What an `if` that was passed over would have returned."""
    if isinstance(statement, ast.If):
        signal = block(r, statement.body)
        if isinstance(signal, Return):
            return signal.value
    return None


def _return(r: Rehearsal, node: ast.Return) -> Signal:
    return Return(expressions.evaluate(r, node.value) if node.value else None)


def _with(r: Rehearsal, node: ast.With | ast.AsyncWith) -> Signal:
    return contexts.run(r, node)


def _try(r: Rehearsal, node: Any) -> Signal:
    return contexts.attempt(r, node)


def _global(r: Rehearsal, node: ast.Global) -> Signal:
    for name in node.names:
        r.frame.outer[name] = r.frame.module or r.frame
    return None


def _nonlocal(r: Rehearsal, node: ast.Nonlocal) -> Signal:
    for name in node.names:
        frame: Frame | None = r.frame.around
        while frame is not None and name not in frame.names:
            frame = frame.around
        if frame is not None:
            r.frame.outer[name] = frame
    return None


def _delete(r: Rehearsal, node: ast.Delete) -> Signal:
    for target in node.targets:
        if isinstance(target, ast.Attribute) and target.attr == "grad":
            assign(r, target, None, node)
    return None


def _match(r: Rehearsal, node: ast.Match) -> Signal:
    """The first case that leads somewhere stands for all."""
    for case in node.cases:
        if leaves(case.body) is not ast.Raise:
            return block(r, case.body)
    return None


HANDLERS: dict[type[ast.stmt], Callable[[Rehearsal, Any], Signal]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.For: loops.for_loop,
    ast.AsyncFor: loops.for_loop,
    ast.While: loops.while_loop,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Return: _return,
    ast.Break: lambda r, node: BREAK,
    ast.Continue: lambda r, node: CONTINUE,
    ast.FunctionDef: definitions.function,
    ast.AsyncFunctionDef: definitions.function,
    ast.ClassDef: definitions.cls,
    ast.Import: definitions.imports,
    ast.ImportFrom: definitions.imports_from,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.Delete: _delete,
    ast.Match: _match,
}
