"""Reads a file into lines: each statement once, its words, what it assigns, what lies inside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.syntax import (
    DEFINITIONS,
    FUNCTIONS,
    asked_at_once,
    counter_name,
    counts,
    lambda_name,
    last_name,
    last_names,
    raises,
    steps_in_one_call,
    summands,
    targets,
)
from gradkeeper.lint.interpreter.vocabulary import CHANGES, HANDS_BACK, OF_TORCH, words

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.facts import Facts


@dataclass(slots=True, eq=False)
class Line:
    """A statement, or a function or class as a whole."""

    node: ast.AST
    words: set[str] = field(default_factory=set)
    """Names and attributes in it, what lies inside it aside."""
    refers: set[str] = field(default_factory=set)
    """Those of its words that may stand for a function of the program."""
    names: set[str] = field(default_factory=set)
    """Those of its words that are asked of nobody: no method is called so."""
    asks: set[tuple[str, str]] = field(default_factory=set)
    """Methods of PyTorch's names, with whom they are asked of: `model`, `train`."""
    of_modules: set[tuple[str, str]] = field(default_factory=set)
    """What is asked of modules, as they are imported: `thop`, `profile`."""
    brings: dict[str, str] = field(default_factory=dict)
    """The names that an import in it brings, and from which package."""
    steps_of: set[str] = field(default_factory=set)
    """Whose `step` it mentions."""
    acts: set[str] = field(default_factory=set)
    """The loud ones among its words."""
    sets: set[str] = field(default_factory=set)
    """What it assigns, or changes in place."""
    assigns: set[str] = field(default_factory=set)
    adds: set[str] = field(default_factory=set)
    """Variables that it adds to another one, or to a list, as they are or multiplied."""
    remainders: list[int] = field(default_factory=list)
    inside: list[Line] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    gives: bool = False
    """It holds a `yield`."""
    gives_inside: bool = False
    """What lies inside it does, functions and classes aside."""
    jumps_inside: bool = False
    """Some of that leaves its loop or function."""
    gathers: bool = False
    """It holds a comprehension."""
    lambdas: list[Line] = field(default_factory=list)
    """The functions without a name in it: each has one line."""
    spends_at_once: bool = False
    ticks: bool = False
    """The one `step` that it mentions is a schedule's."""
    loud: bool = False
    credits: bool = False
    spends: bool = False
    closes: bool = False
    """It may close a window of micro-batches."""
    kept: bool = False

    def walk(self) -> Iterator[Line]:
        stack = [self]
        while stack:
            line = stack.pop()
            yield line
            stack.extend(line.inside)

    def in_order(self) -> Iterator[Line]:
        """What lies inside, as it is written."""
        stack = self.inside[::-1]
        while stack:
            line = stack.pop()
            yield line
            stack.extend(line.inside[::-1])

    def own(self) -> Iterator[Line]:
        """What lies inside, functions and classes aside."""
        stack = list(self.inside)
        while stack:
            line = stack.pop()
            if not isinstance(line.node, DEFINITIONS):
                yield line
                stack.extend(line.inside)


class Reader:
    """One walk over a tree, from nodes to lines."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.modules: set[str] = set()
        """What they are called that were imported so far."""

    def read(self, tree: ast.Module) -> Line:
        whole = Line(tree)
        self._statements(whole, tree.body, None)
        return whole

    def _statements(
        self, around: Line, statements: list[ast.stmt], home: ast.ClassDef | None
    ) -> None:
        for statement in statements:
            around.inside.append(self._statement(statement, home))

    def _statement(self, node: ast.stmt, home: ast.ClassDef | None) -> Line:
        line = Line(node)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.facts.functions.append((node, home))
                self.facts._lines[id(node)] = line
                for expression in (
                    *node.decorator_list,
                    *node.args.defaults,
                    *node.args.kw_defaults,
                ):
                    if expression is not None:
                        self._expression(line, expression)
                self._statements(line, node.body, None)
            case ast.ClassDef():
                for expression in (*node.decorator_list, *node.bases):
                    self._expression(line, expression)
                self._statements(line, node.body, node)
                self.facts.setters[id(node)] = _setters(line)
            case ast.If() | ast.While():
                if isinstance(node, ast.If) and raises(node.body) != raises(node.orelse):
                    self.facts.only_ways[id(node)] = not raises(node.body)
                self._expression(line, node.test)
                self._statements(line, node.body, home)
                self._statements(line, node.orelse, home)
            case ast.For() | ast.AsyncFor():
                self._expression(line, node.iter)
                self._target(line, node.target)
                self._statements(line, node.body, home)
                self._statements(line, node.orelse, home)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(line, item.context_expr)
                    if item.optional_vars is not None:
                        self._target(line, item.optional_vars)
                self._statements(line, node.body, home)
            case ast.Try() | ast.TryStar():
                self._statements(line, node.body, home)
                for handler in node.handlers:
                    self._statements(line, handler.body, home)
                self._statements(line, node.orelse, home)
                self._statements(line, node.finalbody, home)
            case ast.Match():
                self._expression(line, node.subject)
                for case in node.cases:
                    self._expression(line, case.pattern)
                    if case.guard is not None:
                        self._expression(line, case.guard)
                    self._statements(line, case.body, home)
            case ast.Assign():
                self._expression(line, node.value)
                for target in node.targets:
                    self._target(line, target)
            case ast.AugAssign():
                if isinstance(node.op, ast.Add):
                    line.adds.update(summands(node.value))
                self._expression(line, node.value)
                self._target(line, node.target)
            case ast.AnnAssign():
                if node.value is not None:
                    self._expression(line, node.value)
                    self._target(line, node.target)
            case ast.Delete():
                for target in node.targets:
                    self._target(line, target)
            case ast.Import():
                self.imports.append(node)
                self.modules.update(name.asname or name.name for name in node.names)
            case ast.ImportFrom():
                self.imports.append(node)
                if node.module and not node.level:
                    brought = [name.asname or name.name for name in node.names]
                    line.brings = dict.fromkeys(brought, top_of(node.module))
            case _:
                self._expression(line, node)
        return line

    def _target(self, line: Line, target: ast.expr) -> None:
        for part in targets(target):
            line.sets.add(last_name(part))
            line.assigns.add(last_name(part))
            base = part
            while isinstance(base, (ast.Attribute, ast.Subscript, ast.Starred)):
                if isinstance(base, ast.Subscript):
                    self._expression(line, base.slice)
                    line.sets.add(last_name(base.value))
                base = base.value
            self._expression(line, part)

    def _expression(self, line: Line, root: ast.AST) -> None:
        words, uses = line.words, self.facts.uses
        stack: list[ast.AST] = [root]
        holders: set[int] = set()
        while stack:
            node = stack.pop()
            kind = type(node)
            if kind is ast.Name:
                word = node.id  # type: ignore[attr-defined]
                words.add(word)
                if word in OF_TORCH:
                    line.asks.add(("", word))
                else:
                    line.names.add(word)
                continue
            if kind is ast.Constant:
                continue
            if kind is ast.Attribute:
                word = node.attr  # type: ignore[attr-defined]
                words.add(word)
                of = last_name(node.value)  # type: ignore[attr-defined]
                if word == "parameters" and type(node.ctx) is ast.Store:  # type: ignore[attr-defined]
                    pass  # `settings.parameters = […]`: a network would be asked for them
                elif of:
                    asked = uses.get(of)
                    if asked is None:
                        asked = uses[of] = set()
                    asked.add(word)
                elif word == "backward":
                    self.facts.losses.update(summands(node.value))  # type: ignore[attr-defined]
                if id(node) in holders:
                    pass  # `config.train.lr`: something is asked of it, so it is no function
                elif word in OF_TORCH:
                    line.asks.add((of, word))
                    if word == "step":
                        line.steps_of.add(of)
                elif of in self.modules:
                    line.of_modules.add((of, word))
                else:
                    line.refers.add(word)
                holders.add(id(node.value))  # type: ignore[attr-defined]
                stack.append(node.value)  # type: ignore[attr-defined]
                continue
            if kind is ast.Call:
                self._call(line, node)  # type: ignore[arg-type]
                match node:
                    case ast.Call(func=ast.Name(id="divmod"), args=[count, window]):
                        self._remainder(line, node, count, window)
            elif kind is ast.BinOp and counts(node):  # type: ignore[arg-type]
                self._remainder(line, node, node.left, node.right)  # type: ignore[attr-defined]
            elif kind is ast.Yield or kind is ast.YieldFrom:
                line.gives = True
            elif kind is ast.GeneratorExp or kind is ast.ListComp:
                line.gathers = True
            elif kind is ast.Lambda:
                self._lambda(line, node)  # type: ignore[arg-type]
            elif kind is ast.NamedExpr:
                line.sets.add(last_name(node.target))  # type: ignore[attr-defined]
            parts = _PARTS.get(kind)
            if parts is None:
                parts = _PARTS[kind] = [part for part in kind._fields if part not in _PLAIN]
            for name in parts:
                value = getattr(node, name, None)
                if type(value) is list:
                    stack.extend([element for element in value if isinstance(element, ast.AST)])
                elif isinstance(value, ast.AST):
                    stack.append(value)

    def _remainder(self, line: Line, node: ast.AST, count: ast.expr, window: ast.expr) -> None:
        line.remainders.append(id(node))
        self.facts.moduli[id(node)] = last_name(window)
        self.facts.dividends[id(node)] = counter_name(count)

    def _lambda(self, line: Line, node: ast.Lambda) -> None:
        """Its words are those of the line that holds it, and of a function that is called later."""
        body = Line(node.body)
        self._expression(body, node.body)
        line.lambdas.append(Line(node, inside=[body]))
        line.refers.add(lambda_name(node))

    def _call(self, line: Line, node: ast.Call) -> None:
        last = last_name(node.func)
        line.calls.add(last)
        if last == "append":
            for argument in node.args:
                line.adds.update(summands(argument))
        if last in HANDS_BACK:
            self.facts.losses.update(last_name(argument) for argument in node.args)
        if isinstance(node.func, ast.Attribute) and (last in CHANGES or last.endswith("_")):
            line.sets.update(last_names(node.func.value))
        if steps_in_one_call(node):
            line.spends_at_once = True


_PLAIN = words(
    """ctx op ops attr id names arg kind type_comment conversion level module name asname rest
    kwd_attrs is_async"""
)
"""Fields of nodes that hold no further expression."""
_PARTS: dict[type[ast.AST], list[str]] = {}
"""The other fields, by kind of node."""


def top_of(module: str) -> str:
    return module.partition(".")[0]


def can_wait(whole: Line) -> dict[str, ast.stmt]:
    defined: dict[str, int] = {}
    imported: set[str] = set()
    changed: set[str] = set()
    """What functions change, where it is not their own."""
    set_by: dict[str, list[int]] = {}
    """By name: the places of the other lines that give it a value, or change it."""
    for place, line in enumerate(whole.inside):
        if isinstance(line.node, DEFINITIONS) and line.node.name not in defined:
            defined[line.node.name] = place
            for inner in line.walk():
                changed |= inner.sets - inner.assigns
                if isinstance(inner.node, ast.Global):
                    changed.update(inner.node.names)
            continue
        for inner in line.walk():
            for name in inner.sets:
                set_by.setdefault(name, []).append(place)
            if isinstance(inner.node, (ast.Import, ast.ImportFrom)):
                names = inner.node.names
                imported.update(name.asname or name.name.partition(".")[0] for name in names)
            elif isinstance(inner.node, DEFINITIONS):
                set_by.setdefault(inner.node.name, []).append(place)
    if "*" in imported:
        return {}

    def is_settled(name: str, before: int) -> bool:
        places = set_by.get(name, ())
        return not places or (len(places) == 1 and places[0] < before and name not in changed)

    found: dict[str, ast.stmt] = {}
    for name, place in defined.items():
        node = whole.inside[place].node
        assert isinstance(node, DEFINITIONS)
        alone = name not in set_by and name not in imported
        if alone and not node.decorator_list:
            if all(is_settled(word, place) for word in asked_at_once(node)):
                found[name] = node
    return found


def _setters(cls: Line) -> dict[str, list[str]]:
    """By attribute: the methods that set it, those first that do nothing else with it."""
    found: dict[str, list[str]] = {}
    late: list[tuple[str, str]] = []
    for method in cls.inside:
        node = method.node
        if isinstance(node, FUNCTIONS) and node.args.args:
            lines = list(method.own())
            used: set[str] = set()
            for line in lines:
                used |= line.words - line.assigns
            for word in {word for line in lines for word in _provided(line.node)}:
                if word in used:
                    late.append((word, node.name))
                else:
                    found.setdefault(word, []).append(node.name)
    for word, name in late:
        found.setdefault(word, []).append(name)
    return found


def _provided(node: ast.AST) -> Iterator[str]:
    """The attributes that a statement gives a value; one that empties them provides nothing."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return
    if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for part in targets(target):
            if isinstance(part, ast.Attribute):
                yield part.attr
