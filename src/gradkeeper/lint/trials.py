"""Loops that only try something out: in tests, or timed or asserted about on made-up data.

Nobody reads their loss, and nobody keeps their weights. A gradient that is applied twice there
does no harm: that a step is measured twice on the same one may be just what is wanted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradkeeper.lint.interpreter.facts import FUNCTIONS, LOOPS
from gradkeeper.lint.libraries.leaves import words

SCOPES = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
TESTING = words("pytest unittest")
MADE_UP = words("rand randn randint ones zeros empty full arange")
CLOCKS = words("time perf_counter monotonic process_time default_timer Event")
READS = words("item detach tolist numpy state_dict save")
"""What shows that somebody wants to know how it went, or to have what came of it."""


def only_tries(tree: ast.Module, line: int) -> bool:
    """Whether a backward of this line belongs to such a loop."""
    return _is_test(tree) or _is_watched(tree, line)


def _is_test(tree: ast.Module) -> bool:
    """It imports what tests are written with."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return any(name.partition(".")[0] in TESTING for name in names)


def _is_watched(tree: ast.Module, line: int) -> bool:
    """Somebody looks at the clock or asserts, and nobody at what is learned."""
    scope = _scope(tree, line)
    nodes = list(_walk(scope))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = {_last(call.func) for call in calls}
    watched = called & CLOCKS or any(map(_asserts, ast.walk(scope)))
    around = [node for node in nodes if isinstance(node, LOOPS) and _holds(node, line)]
    if not watched or called & READS or not called & MADE_UP or not all(map(_counts, around)):
        return False
    names = [node for node in nodes if isinstance(node, ast.Name)]
    made = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    read = [name for name in names if isinstance(name.ctx, ast.Load)]
    sent = [name for call in calls for name in _sent_back(call)]
    losses = {name.id for name in sent}
    if sum(name.id in losses for name in read) > len(sent):
        return False
    networks = {name for call in calls for name in _asked_for_parameters(call)}
    end = max((node.end_lineno or line for node in around), default=line)
    return networks <= made and not any(x.id in networks and x.lineno > end for x in read)


def _scope(tree: ast.Module, line: int) -> ast.AST:
    """The innermost function that a line lies in, or the file."""
    found: ast.AST = tree
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and _holds(node, line):
            found = node
    return found


def _walk(scope: ast.AST) -> Iterator[ast.AST]:
    """What lies in a scope, without inner ones, and without what is only asserted."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, SCOPES) or _asserts(node):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _asserts(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _last(node.func).startswith("assert")
    return isinstance(node, ast.Assert)


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _counts(loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """It goes over no data."""
    if isinstance(loop, ast.While):
        return True
    return any(isinstance(word, ast.Name) and word.id == "range" for word in ast.walk(loop.iter))


def _sent_back(call: ast.Call) -> Iterator[ast.Name]:
    """The variable that backward() is called on, scaled or not."""
    if _last(call.func) != "backward" or not isinstance(call.func, ast.Attribute):
        return
    of = call.func.value
    if isinstance(of, ast.Call) and _last(of.func) == "scale" and of.args:
        of = of.args[0]
    if isinstance(of, ast.Name):
        yield of


def _asked_for_parameters(call: ast.Call) -> Iterator[str]:
    if _last(call.func) == "parameters" and isinstance(call.func, ast.Attribute):
        of = call.func.value
        yield of.id if isinstance(of, ast.Name) else ""
