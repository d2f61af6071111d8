"""Context managers, try blocks, and weights that are moved by hand."""

import ast
from typing import Any

from gradkeeper.lint import attributes
from gradkeeper.lint.rehearsal import FaultError, Rehearsal
from gradkeeper.lint.values import (
    Accelerator,
    Context,
    Function,
    Instance,
    Opaque,
    Param,
    Signal,
    Value,
)
from gradkeeper.model import events as ev


def run(r: Rehearsal, node: ast.With | ast.AsyncWith) -> Signal:
    before = (r.grad, r.autocast, r.unsynced, r.ctx_accelerator)
    signal = _run_items(r, node, 0)
    r.grad, r.autocast, r.unsynced, r.ctx_accelerator = before
    return signal


def _run_items(r: Rehearsal, node: ast.With | ast.AsyncWith, index: int) -> Signal:
    from gradkeeper.lint import functions, statements
    from gradkeeper.lint.expressions import evaluate

    if index == len(node.items):
        return statements.block(r, node.body)
    item = node.items[index]
    signals: list[Signal] = []
    frame = r.frame

    def body(entered: Value) -> None:
        inside, r.frame = r.frame, frame
        if item.optional_vars is not None:
            statements.assign(r, item.optional_vars, entered, node)
        signals.append(_run_items(r, node, index + 1))
        r.frame = inside

    r.hint = ""
    value = evaluate(r, item.context_expr)
    if isinstance(value, Context) and value.kind == "generator":
        functions.run_around(r, value, body)
    elif isinstance(value, Instance) and attributes.member(value.cls, "__exit__") is not None:
        body(_call_own(r, value, "__enter__", [], node))
        _call_own(r, value, "__exit__", [None, None, None], node)
    else:
        body(_enter(r, value))
    return signals[0]


def _call_own(r: Rehearsal, value: Instance, name: str, args: list[Value], node: ast.AST) -> Value:
    from gradkeeper.lint import functions

    method = attributes.member(value.cls, name)
    if not isinstance(method, Function):
        return value
    return functions.enter(r, attributes.bind(r, method, value), args, {}, node)


def _enter(r: Rehearsal, value: Value) -> Value:
    if not isinstance(value, Context):
        return value
    if value.kind == "no_grad":
        r.grad = False
    elif value.kind == "enable_grad":
        r.grad = True
    elif value.kind == "set_grad":
        if isinstance(value.value, bool):
            r.grad = value.value
        elif isinstance(value.value, Opaque):
            r.grad = r.grad and r.choices.ask(value.value.name)
    elif value.kind == "autocast":
        # Around a whole loop it is a blanket, often over weights that are half already.
        r.autocast = value.value if r.loops else None
    elif value.kind == "no_sync":
        r.unsynced = True
    elif value.kind == "accumulate":
        _accumulate(r, value.value)
    elif value.kind == "pass":
        return value.value
    return value.value if value.kind == "pass" else None


def _accumulate(r: Rehearsal, accelerator: Accelerator) -> None:
    """Accelerate's window: in sync on each n-th batch, and on a loader's last one."""
    accelerator.count += 1
    steps = accelerator.steps or 2
    r.saw_gate(steps)
    last = next((loop.last for loop in reversed(r.loops) if loop.data), False)
    full = accelerator.count % steps == 0
    accelerator.sync = full or last
    accelerator.short = last and not full
    if last:
        accelerator.count = 0
    r.ctx_accelerator = accelerator


def attempt(r: Rehearsal, node: Any) -> Signal:
    from gradkeeper.lint import statements

    if _swallows(r, node) and r.choices.ask(f"{FAULT}{node.lineno}", default=False):
        return _fail(r, node)
    signal = statements.block(r, node.body)
    if signal is None and node.orelse:
        signal = statements.block(r, node.orelse)
    if node.finalbody:
        last = statements.block(r, node.finalbody)
        signal = last or signal
    return signal


FAULT = "an exception is caught at line "


def _swallows(r: Rehearsal, node: Any) -> bool:
    """A try around a backward, inside a loop, that goes on after an exception."""
    survey = r.frame.survey
    if not r.loops or not node.handlers or survey is None or node not in survey.loud:
        return False
    called = {
        getattr(one.func, "attr", getattr(one.func, "id", ""))
        for statement in node.body
        for one in ast.walk(statement)
        if isinstance(one, ast.Call)
    }
    handler = node.handlers[0]
    ends = any(isinstance(one, ast.Raise) for one in handler.body)
    return bool(called & survey.backs) and not ends


def _fail(r: Rehearsal, node: Any) -> Signal:
    """The second backward inside the block raises; the first handler takes it."""
    from gradkeeper.lint import statements

    before = (r.frame, r.grad, r.autocast, r.unsynced, r.within)
    loops, entered, outer = len(r.loops), len(r.entered), r.faulty
    r.faulty = node
    try:
        signal = statements.block(r, node.body)
    except FaultError:
        r.frame, r.grad, r.autocast, r.unsynced, r.within = before
        del r.loops[loops:], r.entered[entered:]
        handler = node.handlers[0]
        if handler.name:
            statements.assign(r, ast.Name(handler.name), Opaque("error", data=True), node)
        signal = statements.block(r, handler.body)
    r.faulty = outer
    return signal


def move(r: Rehearsal, param: Param, node: ast.AST, *, uses_gradient: bool) -> None:
    names = attributes.param_accounts(r, param)
    if uses_gradient:
        r.count_step()
    r.post(ev.Move(site=r.site(node), accounts=names, gradient=uses_gradient))
