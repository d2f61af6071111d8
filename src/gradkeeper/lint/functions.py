"""Entering functions of the program: binding arguments, running bodies, coming back."""

import ast
from collections.abc import Callable

from gradkeeper.lint import expressions, statements
from gradkeeper.lint.rehearsal import DEEPEST, Rehearsal
from gradkeeper.lint.tensors import join, mix, opaque_parts
from gradkeeper.lint.values import Context, Frame, Function, Loader, Opaque, Return, Value

ASSUMED_GATE = 2
CUTTING = ("no_grad", "inference_mode")
MOST_NESTED = 2


def enter(
    r: Rehearsal, function: Function, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    code = function.node
    nested = sum(1 for one in r.entered if one is code)
    if nested >= MOST_NESTED or len(r.entered) >= DEEPEST:
        return mix(r, f"{function.name}()", [*args, *kwargs.values()])
    survey = function.frame.survey
    if survey is not None and (code, r.grad) in survey.dull:
        gives = survey.dull[code, r.grad]
        if not gives or not _carry(args, kwargs):
            return Opaque(f"{function.name}()")
    if _is_context(function):
        return Context("generator", (function, args, kwargs))
    if survey is not None and code in survey.yields and not isinstance(code, ast.Lambda):
        if code not in survey.loud:
            return Loader(function.name)
    frame = _frame(r, function, args, kwargs)
    if survey is None or code in survey.loud or isinstance(code, ast.Lambda):
        return _run(r, function, frame)
    return _run_quiet(r, function, frame)


def _carry(args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Something computed is handed in: what comes back may depend on it."""
    return any(one.flow for one in opaque_parts([*args, *kwargs.values()]))


def _frame(r: Rehearsal, function: Function, args: list[Value], kwargs: dict[str, Value]) -> Frame:
    frame = Frame(
        {},
        function.frame,
        function.frame.module or function.frame,
        function.name,
        function.frame.survey,
        function.frame.file,
        home=function.home or function.frame.home,
    )
    if function.is_bound:
        args = [function.bound, *args]
        frame.me = function.bound
    else:
        frame.me = function.frame.me
    bind_arguments(r, function, args, kwargs, frame)
    return frame


def _is_context(function: Function) -> bool:
    """@contextmanager: its body runs around that of a `with`."""
    if isinstance(function.node, ast.Lambda):
        return False
    return any(
        getattr(one, "attr", getattr(one, "id", "")) in ("contextmanager", "asynccontextmanager")
        for one in function.node.decorator_list
    )


def run_around(r: Rehearsal, generator: Context, body: Callable[[Value], None]) -> None:
    """Runs a @contextmanager function; its first yield runs `body`."""
    function, args, kwargs = generator.value
    frame = _frame(r, function, args, kwargs)
    frame.around_body = body
    if len(r.entered) < DEEPEST:
        _run(r, function, frame)
    if frame.around_body is not None:
        body(None)


def bind_arguments(
    r: Rehearsal, function: Function, args: list[Value], kwargs: dict[str, Value], frame: Frame
) -> None:
    spec = function.node.args
    names = [one.arg for one in (*spec.posonlyargs, *spec.args)]
    for name, value in zip(names, args, strict=False):
        frame.names[name] = value
    if spec.vararg:
        frame.names[spec.vararg.arg] = list(args[len(names) :])
    extra: dict[str, Value] = {}
    known = {*names, *(one.arg for one in spec.kwonlyargs)}
    for name, value in kwargs.items():
        if name in known:
            frame.names[name] = value
        else:
            extra[name] = value
    if spec.kwarg:
        frame.names[spec.kwarg.arg] = extra
    defaults = dict(
        zip(names[len(names) - len(function.defaults) :], function.defaults, strict=False)
    )
    defaults.update(function.kw_defaults)
    for name in known:
        if name not in frame.names:
            frame.names[name] = _missing(r, name, defaults, frame)


def _missing(r: Rehearsal, name: str, defaults: dict[str, Value], frame: Frame) -> Value:
    gates = frame.survey.gates if frame.survey is not None else ()
    if name in defaults:
        value = defaults[name]
        if name in gates and value in (1, None) and not isinstance(value, bool):
            return ASSUMED_GATE
        return value
    return ASSUMED_GATE if name in gates else Opaque(name)


def _run_quiet(r: Rehearsal, function: Function, frame: Frame) -> Value:
    """Runs a function that makes no event; if it gives and changes nothing either, only once.

    Under no_grad it may give nothing, and with gradients something: these are two questions.
    """
    before = (len(r.tape), r.changes, r.idle)
    result = _run(r, function, frame)
    if (len(r.tape), r.changes, r.idle) == before and _is_dull(result) and not frame.outer:
        frame.survey.dull[function.node, r.grad] = result is not None
    return result


def _is_dull(result: Value) -> bool:
    if isinstance(result, Opaque):
        return result.blank()
    if isinstance(result, tuple):  # a list has a length, which may count the batches of a window
        return all(_is_dull(one) for one in result[:8])
    if isinstance(result, dict):
        return all(_is_dull(one) for one in list(result.values())[:8])
    return result is None


def _run(r: Rehearsal, function: Function, frame: Frame) -> Value:
    code = function.node
    before, grad = r.frame, r.grad
    r.frame = frame
    r.entered.append(code)
    r.visited.add(code)
    if not isinstance(code, ast.Lambda):
        for one in code.decorator_list:
            name = one.func if isinstance(one, ast.Call) else one
            if getattr(name, "attr", getattr(name, "id", "")) in CUTTING:
                r.grad = False
    try:
        if isinstance(code, ast.Lambda):
            return expressions.evaluate(r, code.body)
        signal = statements.block(r, code.body)
        if isinstance(signal, Return):
            return signal.value
        return _passed_over(r, frame)
    finally:
        r.entered.pop()
        r.frame, r.grad = before, grad


def _passed_over(r: Rehearsal, frame: Frame) -> Value:
    """The end was reached past a `return` under an unknown test: that is what it gives."""
    result: Value = None
    for statement in frame.skipped[:4]:
        value = statements.returned(r, statement)
        result = value if result is None else join("", result, value)
    return result
