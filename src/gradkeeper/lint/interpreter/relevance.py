"""Which statements can matter to training; the others are skipped and leave unknown values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.lines import Line
from gradkeeper.lint.interpreter.syntax import (
    FUNCTIONS,
    LOOPS_AND_FUNCTIONS,
    calls_in,
    last_name,
    leaves,
)
from gradkeeper.lint.interpreter.vocabulary import (
    ACTS,
    BUILDS,
    CHANGES,
    KEPT,
    OF_OPTIMIZERS,
    OWNERS,
    SAVES,
)

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.facts import Facts


class Relevance:
    """Skips statements whose values reach nothing loud."""

    def __init__(
        self, facts: Facts, files: list[Line], lines: list[Line], functions: dict[str, list[Line]]
    ) -> None:
        self.facts = facts
        self.files = files
        self.lines = lines
        self.functions = functions
        self.arguments = {
            argument.arg
            for found in functions.values()
            for line in found
            if isinstance(line.node, FUNCTIONS)
            for argument in (*line.node.args.args, *line.node.args.kwonlyargs)
        }

    def find(self) -> None:
        setters: dict[str, list[Line]] = {}
        for line in self.lines:
            self.facts.assigned |= line.sets
            for word in line.sets:
                setters.setdefault(word, []).append(line)
        self._add_changes_of_arguments(setters)
        acting = {name for name, found in self.facts.uses.items() if found & ACTS} - OWNERS
        if not any(line.credits for line in self.lines):
            # Where backward() was forgotten, a loss may still be computed: by a function as well,
            # or by a network of which an optimizer was given a part.
            acting |= {name for name, found in self.facts.uses.items() if found & acting} - OWNERS
            acting |= set(self._calling(acting))
        effects: set[str] = set()
        waiting = [line for line in self.lines if self._matters(line, acting)]
        waiting += self._done_by_holders()
        waiting += self._parts()
        waiting += self._guards()
        waiting += self._uses_of_iterators()
        waiting += [line for line in self.lines if self._calls_a_variable(line)]
        # Behind an exit that no branch leads around, nothing happens.
        waiting += [line for file in self.files for line in file.inside if leaves([line.node])]
        known: set[str] = set()
        around = {id(inner): line for line in self.lines for inner in line.inside}
        while waiting:
            line = waiting.pop()
            if line.kept:
                continue
            line.kept = True
            branch = around.get(id(line))
            if branch is not None and isinstance(branch.node, (ast.If, ast.While)):
                waiting.append(branch)  # what it sets depends on whether it is come to
            for word in line.words - known:
                known.add(word)
                waiting.extend(setter for setter in setters.get(word, ()) if not setter.kept)
        self._keep_calls(effects)
        for file in self.files:
            self._skip(file)

    def _calling(self, names: set[str]) -> Iterator[str]:
        """Functions that call something of these names."""
        for name, lines in self.functions.items():
            if any(not inner.calls.isdisjoint(names) for line in lines for inner in line.own()):
                yield name

    def _add_changes_of_arguments(self, setters: dict[str, list[Line]]) -> None:
        """`register(LOSSES, "ce")`: what a function does to an argument, it does to what it was
        given, whatever that is called where it comes from."""
        changes = {
            name: found
            for name, lines in self.functions.items()
            if (found := [change for line in lines for change in _changes_of_arguments(line)])
        }
        for line in self.lines if changes else ():
            for name in line.calls & changes.keys():
                for word in line.words:
                    setters.setdefault(word, []).extend(changes[name])

    def _done_by_holders(self) -> Iterator[Line]:
        """What is called on something that was given an optimizer: it may do what it likes."""
        uses = self.facts.uses.items()
        optimizers = {name for name, found in uses if found & OF_OPTIMIZERS} - OWNERS
        holders: set[str] = set()
        for line in self.lines:
            node = line.node
            if isinstance(node, ast.Assign) and line.words & optimizers:
                if isinstance(node.value, ast.Call):
                    holders |= line.assigns
                for target in node.targets:
                    if isinstance(target, ast.Attribute):
                        holders.add(last_name(target.value))
        holders -= OWNERS | optimizers
        for line in self.lines if holders else ():
            called = line.node.value if isinstance(line.node, ast.Expr) else None
            function = called.func if isinstance(called, ast.Call) else None
            of = function.value if isinstance(function, ast.Attribute) else function
            if of is not None and last_name(of) in holders:
                yield line

    def _parts(self) -> Iterator[Line]:
        """What a class with a base sets up in __init__: it may be a layer, read or not."""
        for line in self.lines:
            if isinstance(line.node, ast.ClassDef) and line.node.bases:
                for method in line.inside:
                    if getattr(method.node, "name", "") == "__init__":
                        yield from (inner for inner in method.own() if inner.sets and inner.calls)

    def _guards(self) -> Iterator[Line]:
        """Branches that leave a loop or function which does something: `if i % n: continue`."""
        for line in self.lines:
            if line.loud and isinstance(line.node, LOOPS_AND_FUNCTIONS):
                yield from (inner for inner in line.own() if id(inner.node) in self.facts.jumps)

    def _uses_of_iterators(self) -> Iterator[Line]:
        """`count(params)`: who is given what can be read once may have read it."""
        once = {
            name
            for line in self.lines
            if isinstance(line.node, ast.Assign) and _reads_once(line.node.value)
            for name in line.assigns
        }
        for line in self.lines if once else ():
            if not line.words.isdisjoint(once) and line.calls:
                for call in calls_in(line.node):
                    if not once.isdisjoint(map(last_name, call.args)):
                        yield line
                        break

    def _matters(self, line: Line, acting: set[str]) -> bool:
        node = line.node
        if isinstance(node, (ast.Return, ast.Raise, ast.Global, ast.Nonlocal, ast.Break)):
            return True
        if isinstance(node, (ast.Continue, ast.Import, ast.ImportFrom, *FUNCTIONS, ast.ClassDef)):
            return True
        if line.acts or line.spends_at_once or line.gives:
            return True
        if not line.words.isdisjoint(KEPT) or not line.refers.isdisjoint(self.facts.loud_names):
            return True
        if line.gathers:
            return True  # it may use up an iterator that somebody else needs
        if isinstance(node, (ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)):
            return line.loud
        if "data" in line.sets:
            return True  # perhaps a parameter's
        if any(self._is_loss(name) for name in line.adds):
            return True  # a total may hold on to what it is made of
        return not line.words.isdisjoint(acting) or any(map(_may_act, line.calls))

    def _calls_a_variable(self, line: Line) -> bool:
        """`hook(self)`, `getattr(callback, name)(self)`: called for what it does, which no name in
        the line tells."""
        node = line.node
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            return False
        match node.value.func:
            case ast.Name(id=name):
                return name in self.facts.assigned or name in self.arguments
            case ast.Attribute(attr=name):
                return name in self.facts.assigned and name not in self.functions
            case ast.Subscript() | ast.Call(func=ast.Name(id="getattr")):
                return True
        return False

    def _is_loss(self, name: str) -> bool:
        return name in self.facts.losses or "backward" in self.facts.uses.get(name, ())

    def _keep_calls(self, effects: set[str]) -> None:
        """Calls of functions that save, or set something which matters, or that no file shows; and
        of those that call them in turn."""
        grown = True
        while grown:
            grown = False
            for name, lines in self.functions.items():
                if name in effects:
                    continue
                if any(
                    inner.kept
                    and (
                        inner.sets
                        or self._calls_a_variable(inner)
                        or not inner.calls.isdisjoint(SAVES)
                        or not inner.calls.isdisjoint(effects)
                    )
                    for line in lines
                    for inner in line.walk()
                ):
                    effects.add(name)
                    grown = True
            for line in self.lines:
                if not line.kept and (line.calls & effects or _calls_by_name(line)):
                    line.kept = grown = True

    def _skip(self, line: Line) -> bool:
        """Whether anything in a line is kept; what is not is skipped."""
        inside = [self._skip(inner) for inner in line.inside]
        keeps = line.kept or any(inside)
        if keeps:
            line.kept = True
            self.facts.skipped.discard(id(line.node))
        else:
            self.facts.skipped.add(id(line.node))
        return keeps


def _reads_once(value: ast.expr) -> bool:
    """`model.parameters()`, `filter(..., model.parameters())`: parameters that can be read once."""
    if isinstance(value, ast.GeneratorExp):
        value = value.generators[0].iter
    if not isinstance(value, ast.Call):
        return False
    if last_name(value.func) in ("filter", "map", "chain"):
        return any(map(_reads_once, value.args))
    return last_name(value.func) in BUILDS


def _changes_of_arguments(function: Line) -> Iterator[Line]:
    """The lines that change what a function was given, in place: `table[name] = value`."""
    if not isinstance(function.node, FUNCTIONS):
        return
    given = {argument.arg for argument in function.node.args.args} - OWNERS
    if given:
        for line in function.walk():
            if isinstance(line.node, (ast.Assign, ast.AugAssign, ast.Expr)):
                if not given.isdisjoint(_changed(line.node)):
                    yield line


def _changed(node: ast.Assign | ast.AugAssign | ast.Expr) -> Iterator[str]:
    match node:
        case ast.Assign(targets=[ast.Subscript(value=of)]):
            yield last_name(of)
        case ast.AugAssign(target=ast.Subscript(value=of)):
            yield last_name(of)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name, value=of))) if name in CHANGES:
            yield last_name(of)


def _calls_by_name(line: Line) -> bool:
    """`setup(...)` for itself: whatever it does, it is called to do it."""
    node = line.node
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    function = node.value.func
    return isinstance(function, ast.Name) and function.id != "print"


def _may_act(called: str) -> bool:
    """Whether a function's name says that it steps, has to do with gradients, or changes a tensor
    in place."""
    in_place = called.endswith("_") and not called.startswith("_")
    return in_place or "step" in called or "grad" in called
