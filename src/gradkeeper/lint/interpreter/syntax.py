"""Small questions to a syntax tree: what a target is called, which calls a statement holds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
LOOPS_AND_FUNCTIONS = (*LOOPS, *FUNCTIONS)


def plainly_in(value: ast.expr, functions: set[str]) -> Iterator[str]:
    """Those of the functions that an expression hands on and does not call."""
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Name, ast.Attribute)):
            if last_name(node) in functions:
                yield last_name(node)
        elif isinstance(node, ast.Call):
            waiting += [*node.args, *(keyword.value for keyword in node.keywords)]
        elif not isinstance(node, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
        else:
            if lambda_name(node) in functions:
                yield lambda_name(node)
            waiting += [call.func for call in ast.walk(node.body) if isinstance(call, ast.Call)]


def lambda_name(node: ast.Lambda) -> str:
    """What a function without a name goes by, among those that have one."""
    return f"lambda {id(node)}"


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """The calls of a statement, what lies inside it aside."""
    waiting: list[ast.AST] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Call):
            yield part
        waiting.extend(
            child
            for child in ast.iter_child_nodes(part)
            if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case))
        )


def asked_at_once(definition: ast.AST) -> set[str]:
    """The names that are read when a definition is made: not those in functions' bodies."""
    found: set[str] = set()
    waiting: list[ast.AST] = [definition]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, FUNCTIONS):
            defaults = (*node.args.defaults, *node.args.kw_defaults)
            waiting += [
                expression
                for expression in (*node.decorator_list, *defaults)
                if expression is not None
            ]
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return found


def raises(body: list[ast.stmt]) -> bool:
    """The branch ends in an exception or leaves the program: nobody trains that way."""
    return any(isinstance(statement, ast.Raise) for statement in body) or leaves(body)


def leaves(body: Iterable[ast.AST]) -> bool:
    """One of these statements leaves the program."""
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            function = statement.value.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            if name in ("exit", "quit", "_exit", "abort"):
                return True
    return False


def steps_in_one_call(node: ast.Call) -> bool:
    """`scaler(loss, optimizer, parameters=..., clip_grad=...)`: backward and step at once."""
    words = {keyword.arg for keyword in node.keywords}
    if len(node.args) < 2 or isinstance(node.func, ast.Attribute):
        return False
    return bool(words & {"need_update", "update_grad"}) or {"parameters", "clip_grad"} <= words


def last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return ""


def summands(node: ast.AST) -> Iterator[str]:
    """`loss` of `loss`, `loss * n` or `loss / n`."""
    while isinstance(node, ast.BinOp):
        node = node.left
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield last_name(node)


def last_names(node: ast.AST) -> Iterator[str]:
    """Of each object that an expression may give: `(decay if p.dim() > 1 else rest)`."""
    if isinstance(node, ast.IfExp):
        yield from (*last_names(node.body), *last_names(node.orelse))
    elif isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from last_names(part)
    else:
        yield last_name(node)


def arguments_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """By place, and then those that are given by name only."""
    spec = function.args
    return [argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]


def goes_over_tasks(loop: ast.AST) -> bool:
    """`for criterion in criteria:` with `criterion(...)` in it, `for name in names:` with
    `heads[name](...)`, or `for name in loaders:` with `next(loaders[name])`."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    names = names_in(loop.target)
    calls = (node for part in loop.body for node in ast.walk(part) if isinstance(node, ast.Call))
    return any(not names.isdisjoint(_asked(call)) for call in calls)


def _asked(call: ast.Call) -> set[str]:
    """The variables that are called, or that are asked for what comes next."""
    match call:
        case ast.Call(func=ast.Name(id="next"), args=[given, *_]):
            return names_in(given)
        case ast.Call(func=ast.Attribute(attr="next" | "__next__", value=of)):
            return names_in(of)
        case ast.Call(func=ast.Name(id=name)):
            return {name}
        case ast.Call(func=ast.Subscript(slice=ast.Name(id=name))):
            return {name}
    return set()


def names_in(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def counts(node: ast.BinOp) -> bool:
    """A remainder of something that may count; `i + 1 % n`, and a text with `%s`, does not."""
    return type(node.op) is ast.Mod and type(node.left) is not ast.Constant


def counter_name(node: ast.AST) -> str:
    """`step` in `step + 1`."""
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        node = node.left
    return last_name(node)


def targets(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from targets(element)
    elif isinstance(target, ast.Starred):
        yield from targets(target.value)
    else:
        yield target
