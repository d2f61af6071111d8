"""Statements that a rehearsal may pass over: nothing that makes an event depends on them.

By names alone, over the whole file: what loud statements mention is needed, and what is assigned
to a needed name needs what it mentions. Cheap, and wrong only in keeping too much.
"""

import ast
from dataclasses import dataclass, field

from gradkeeper.lint.strangers import ACTS
from gradkeeper.lint.survey import Survey
from gradkeeper.lint.syntax import FUNCTIONS, children
from gradkeeper.lint.vocabulary import OPTIMIZER_NAME, OPTIMIZERS

SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
LEAVING = (ast.Return, ast.Break, ast.Continue)
CALLED_FROM_OUTSIDE = ("configure_optimizers", "forward", "get_optimizer")
KEPT = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.ClassDef, *FUNCTIONS)


@dataclass(slots=True)
class Quiet:
    """A quiet statement: what it changes, and what it mentions."""

    node: ast.stmt
    targets: set[str]
    uses: set[str]


@dataclass(slots=True)
class Slicer:
    survey: Survey
    needed: set[str] = field(default_factory=set)
    quiet: list[Quiet] = field(default_factory=list)
    kept: list[Quiet] = field(default_factory=list)
    """Quiet statements that are run all the same."""
    returns: dict[str, set[str]] = field(default_factory=dict)
    """By function: what its return statements mention."""

    def visit(self, body: list[ast.stmt], around: set[str], function: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                self.visit(node.body, set(), function)
            elif isinstance(node, FUNCTIONS):
                self.needed |= mentioned(node.args)
                self.visit(node.body, set(), node.name)
            elif isinstance(node, ast.Return):
                if node.value is not None:
                    self.returns.setdefault(function, set()).update(mentioned(node.value), around)
            elif isinstance(node, SIMPLE):
                self._simple(node, around, function)
            else:
                self._compound(node, around, function)

    def _simple(self, node: ast.stmt, around: set[str], function: str) -> None:
        uses = mentioned(node)
        if node in self.survey.loud or _hands_over(node):
            self.needed |= uses
        elif function == "__init__":
            # Run when a part of the object is asked for, so what it makes must be there.
            self.kept.append(Quiet(node, _targets(node), uses | around))
        else:
            self.quiet.append(Quiet(node, _targets(node), uses | around))

    def _compound(self, node: ast.stmt, around: set[str], function: str) -> None:
        header = _header(node)
        if node in self.survey.loud:
            self.needed |= header
        elif isinstance(node, (ast.For, ast.With)):
            self.quiet.append(Quiet(node, header, header | around))
        for body in _bodies(node):
            self.visit(body, around | header, function)

    def close(self) -> None:
        """Adds what the needed names need, until nothing is added."""
        by_target: dict[str, list[set[str]]] = {}
        for one in (*self.quiet, *self.kept):
            for name in one.targets:
                by_target.setdefault(name, []).append(one.uses)
        for name, uses in self.returns.items():
            by_target.setdefault(name, []).append(uses)
        waiting = list(self.needed)
        while waiting:
            for uses in by_target.pop(waiting.pop(), ()):
                new = uses - self.needed
                self.needed |= new
                waiting.extend(new)


def inert(tree: ast.Module, survey: Survey) -> set[ast.stmt]:
    slicer = Slicer(survey)
    slicer.visit(tree.body, set(), "")
    for name in CALLED_FROM_OUTSIDE:
        slicer.needed |= slicer.returns.get(name, set())
    slicer.close()
    found: set[ast.stmt] = {
        one.node
        for one in slicer.quiet
        if isinstance(one.node, SIMPLE) and not (one.targets & slicer.needed)
    }
    _mark_blocks(tree.body, found, survey)
    return found


def _hands_over(node: ast.stmt) -> bool:
    """A yield; a call that builds or is given an optimizer, or speaks of gradients by its name."""
    call = getattr(node, "value", None)
    if isinstance(call, (ast.Yield, ast.YieldFrom)):
        return True
    if not isinstance(call, ast.Call):
        return False
    if ACTS.search(_last(call.func)) or _last(call.func) in OPTIMIZERS:
        return True
    given = [*call.args, *(one.value for one in call.keywords)]
    return any(OPTIMIZER_NAME.search(_last(one)) for one in given)


def _last(node: ast.AST) -> str:
    return str(getattr(node, "attr", None) or getattr(node, "id", ""))


def _mark_blocks(body: list[ast.stmt], found: set[ast.stmt], survey: Survey) -> bool:
    """Adds compound statements of which nothing is left; True if nothing of `body` is."""
    nothing = True
    for node in body:
        if isinstance(node, KEPT):
            if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
                _mark_blocks(node.body, found, survey)
            nothing = False
        elif isinstance(node, LEAVING):
            nothing = False
        elif isinstance(node, SIMPLE):
            nothing = nothing and node in found
        elif isinstance(node, (ast.Pass, ast.Assert, ast.Raise)):
            continue
        else:
            empty = [_mark_blocks(one, found, survey) for one in _bodies(node)]
            if all(empty) and node not in survey.loud:
                found.add(node)
            else:
                nothing = False
    return nothing


def _bodies(node: ast.stmt) -> list[list[ast.stmt]]:
    found = [getattr(node, name) for name in ("body", "orelse", "finalbody") if hasattr(node, name)]
    found += [one.body for one in getattr(node, "handlers", ())]
    found += [one.body for one in getattr(node, "cases", ())]
    return found


def _header(node: ast.stmt) -> set[str]:
    """What stands before the colon."""
    names: set[str] = set()
    for part in ("test", "iter", "target", "subject"):
        inner = getattr(node, part, None)
        if inner is not None:
            names |= mentioned(inner)
    for item in getattr(node, "items", ()):
        names |= mentioned(item)
    return names


def mentioned(node: ast.AST) -> set[str]:
    """Names and attributes in an expression or a simple statement."""
    found: set[str] = set()
    stack = [node]
    while stack:
        one = stack.pop()
        kind = type(one)
        if kind is ast.Name:
            found.add(one.id)  # type: ignore[attr-defined]
            continue
        if kind is ast.Constant:
            continue
        if kind is ast.Attribute:
            found.add(one.attr)  # type: ignore[attr-defined]
            stack.append(one.value)  # type: ignore[attr-defined]
            continue
        stack.extend(children(one))
    return found


def _targets(node: ast.stmt) -> set[str]:
    """What a simple statement may change: its targets, or the receiver of its call."""
    if isinstance(node, ast.Assign):
        return {name for target in node.targets for name in _changed(target)}
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return _changed(node.target)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        func = node.value.func
        found = _changed(func)
        if isinstance(func, ast.Attribute):
            found |= _changed(func.value)
        return found
    return mentioned(node) if isinstance(node, ast.Expr) else set()


def _changed(target: ast.AST) -> set[str]:
    if isinstance(target, ast.Name):
        return {target.id}
    if isinstance(target, ast.Attribute):
        return {target.attr}
    if isinstance(target, ast.Subscript):
        return _changed(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        return {name for one in target.elts for name in _changed(one)}
    if isinstance(target, ast.Starred):
        return _changed(target.value)
    return mentioned(target)
