"""Where a run begins: in a file, as a script, or in a function that nobody calls.

Such a function is called as its unknown caller would, with arguments that nobody knows, and once
for each batch if it trains on one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from gradkeeper.lint.imports import Project
from gradkeeper.lint.interpreter.frames import Frame
from gradkeeper.lint.interpreter.machine import Machine
from gradkeeper.lint.interpreter.objects import (
    Class,
    Function,
    Generator,
    Instance,
    StaticMethod,
)
from gradkeeper.lint.interpreter.syntax import DEFINITIONS
from gradkeeper.lint.interpreter.values import Call, Constant, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import CREDITS
from gradkeeper.lint.libraries.nn import Module
from gradkeeper.lint.libraries.optim import Optimizer
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape
from gradkeeper.lint.libraries.roles import role_of
from gradkeeper.model import events as ev

WINDOW = 3
"""What stands for "some N > 1"."""


@dataclass(frozen=True, slots=True)
class Root:
    """Where a rehearsal begins: a file run as a script, or a function that nobody calls."""

    path: str
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    home: ast.ClassDef | None = None
    left_early: bool = False
    """It is called, and no run that did so came to its loops."""

    @property
    def text(self) -> str:
        if self.function is None:
            return f"{self.path}, run as a script"
        home = f"{self.home.name}." if self.home else ""
        why = "left early by its callers" if self.left_early else "which nobody calls"
        return f"{home}{self.function.name}() of line {self.function.lineno}, {why}"


def start(m: Machine, project: Project, root: Root) -> None:
    """Runs a file as a script, or calls a function as its unknown caller would."""
    node, home = root.function, root.home
    if node is None:
        m.run_module(project.files[root.path], root.path, "__main__")
        return
    frame = m.frame = _prepared(m, project, root.path)
    if home is None:
        function = _find_function(m, frame, node)
        if function is None:
            outer = m.define(node)
            function = outer
        _call_each_batch(m, project, node, function)
        return
    cls = _find_class(m, frame, project.files[root.path], home)
    if cls is None:
        return
    builder = cls.member("__init__")
    given = _arguments(m, builder)[1:] if isinstance(builder, Function) else []
    instance = m.make_instance(cls, Call(m, given, open=True))
    if isinstance(instance, Instance) and isinstance(instance.native, Optimizer):
        return  # how an optimizer moves what it owns is its own affair
    if isinstance(instance, Instance):
        instance.invented = True
        m.state(RunTape).begun_in_a_network = type(instance.native) is Module
        m.provided = frozenset(
            name for name, value in instance.attributes.items() if value.is_none(m) is not True
        )
    if isinstance(instance, Instance) and m.libraries.drive(m, instance, node.name):
        return
    member = cls.member(node.name)
    if isinstance(member, StaticMethod):
        _call_each_batch(m, project, node, member.function)
    elif isinstance(member, Function):

        def call() -> None:
            given = [instance, *_arguments(m, member)[1:]]
            _go_through(m, project, m.run_function(member, Call(m, given, open=True)))

        if not any(owner.known for owner in _built_by(m, call)):
            _again(m, project, node, call, of=instance)
    else:
        instance.attribute(m, node.name).call(Call(m))


def _call_each_batch(m: Machine, project: Project, node: ast.AST, function: Function) -> None:
    """Calls a function with arguments that nobody knows, and again if it trains on one batch."""

    def call() -> None:
        _go_through(m, project, function.call(Call(m, _arguments(m, function), open=True)))

    new = _built_by(m, call)
    if new and not any(owner.known for owner in new):
        # With an optimizer of the file, the file would call it; with its own, it is a trial.
        _again(m, project, node, call)


def _built_by(m: Machine, call: Callable[[], object]) -> list[RecordedOwner]:
    """The optimizers that this call builds: not those that it finds set up by somebody before."""
    tape = m.state(RunTape)
    built, begun = len(tape.owners), len(tape.earlier)
    call()
    earlier = {note.owner for note in tape.earlier[begun:] if note.kind is ev.Adopt}
    return [owner for owner in tape.owners[built:] if owner not in earlier]


def _go_through(m: Machine, project: Project, made: Value) -> None:
    """A generator that trains is gone through to its end, whatever is done with what it gives.

    One that takes no steps itself may leave them to whoever goes through it.
    """
    if isinstance(made, Generator) and id(made.function.code) in project.facts.whole_loops:
        caller = m.parameter(made.function, "caller")

        def take(element: Value) -> bool:
            caller.call(Call(m, [element]))
            return False

        made.for_each(m, take)


def _again(
    m: Machine,
    project: Project,
    node: ast.AST,
    call: Callable[[], object],
    *,
    of: Value | None = None,
) -> None:
    """A function that takes one step is called for every batch, by somebody who is not seen.

    Not where it is handed the optimizer: then its caller may do the rest. A base class that sets
    one up for its subclasses leaves the rest to them, where they zero or step at all; and so does
    whoever uses an object that has one made for itself.
    """
    tape = m.state(RunTape)
    facts = project.facts
    counts = any(question.periodic for question in m.questions.values())
    made = _made_for(m, of, node)
    own = all(owner.known or owner.inherited or owner in made for owner in tape.owners)
    nobody_steps = not facts.stepping and own
    repeats = tape.steps or ((counts or nobody_steps) and tape.backwards)
    if id(node) in facts.whole_loops or not repeats:
        return
    nobody_zeroes = own and not any("zero_grad" in uses for uses in facts.uses.values())
    stepped = {note.owner for note in tape.notes if note.kind is ev.Step and note.owner is not None}
    if not all(_is_zeroed(tape, step) for step in stepped) and _others_zero(m, project, node):
        return
    if not tape.backwards and any(
        facts.words_of(function) & CREDITS
        for function, _ in facts.functions
        if function not in m.visited
    ):
        return
    if not all(owner.known or _is_zeroed(tape, owner) or nobody_zeroes for owner in tape.owners):
        return
    for _ in range(3 * WINDOW if counts else 2):
        tape.note(m, ev.Batch, source="calls", site=m.site(node))
        m.calls += 1
        call()


def _made_for(m: Machine, instance: Value | None, node: ast.AST) -> set[RecordedOwner]:
    """The optimizers that an object had made for itself out of sight, before this method is called:
    nobody handed them in."""
    if not isinstance(instance, Instance):
        return set()
    set_here = m.facts.attributes_set_in(node)
    its_own = {
        value.key
        for name, value in instance.attributes.items()
        if isinstance(value, Unknown) and not value.given and name not in set_here
    }
    found: set[RecordedOwner] = set()
    for value in m.kept:
        role = role_of(m, value) if isinstance(value, Unknown) else None
        if not isinstance(role, Optimizer):
            continue
        whole = value
        while isinstance(whole, Unknown) and whole.key not in its_own:
            whole = whole.of  # that of a part: `self.agent.optimizer`
        if isinstance(whole, Unknown):
            found.add(role.owner)
    return found


def _others_zero(m: Machine, project: Project, node: ast.AST) -> bool:
    """What was not come to zeroes: another method of the class, or somebody who calls this one."""
    facts = project.facts
    homes = {home for function, home in facts.functions if function is node and home is not None}
    name: str = node.name  # type: ignore[attr-defined]
    for function, home in facts.functions:
        if function in m.visited:
            continue
        found = facts.words_of(function)
        if "zero_grad" in found and (home in homes or name in found):
            return True
    return False


def _is_zeroed(tape: RunTape, owner: RecordedOwner) -> bool:
    """What is stepped here is zeroed here."""
    return any(note.kind is ev.Zero and owner in note.targets for note in tape.notes)


def _prepared(m: Machine, project: Project, path: str) -> Frame:
    """Definitions and constants of the file: what it does by itself was rehearsed before."""
    facts = project.facts
    waiting = facts.can_wait(path)
    quiet: list[ast.stmt] = [
        statement
        for statement in project.files[path].body
        if (isinstance(statement, DEFINITIONS) and waiting.get(statement.name) is not statement)
        or isinstance(statement, (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign))
        or (isinstance(statement, (ast.Try, ast.If)) and not facts.is_loud(statement))
    ]
    frame = m.module_frame(path, "module")
    frame.waiting = dict(waiting)
    m.run_in(frame, quiet)
    return frame


def _arguments(m: Machine, function: Function) -> list[Value]:
    """What an unknown caller hands in; `start=0` stays what it is."""
    spec = function.code.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    defaults = dict(zip(reversed(names), reversed(function.defaults), strict=False))
    found: list[Value] = []
    for name in names:
        default = defaults.get(name)
        if isinstance(default, Constant) and type(default.value) is int and default.value == 0:
            found.append(default)
        else:
            found.append(m.parameter(function, name))
    return found


def _defined(m: Machine, frame: Frame, name: str) -> Value | None:
    return frame.names.get(name) or m.define_now(frame, name)


def _find_function(m: Machine, frame: Frame, node: ast.AST) -> Function | None:
    found = _defined(m, frame, node.name)  # type: ignore[attr-defined]
    while found is not None and not isinstance(found, Function):
        found = getattr(found, "function", None)
    return found if found is not None and found.code is node else None


def _find_class(m: Machine, frame: Frame, tree: ast.Module, node: ast.ClassDef) -> Class | None:
    """A class of a file, which may lie in another one or in a function."""
    found = _defined(m, frame, node.name)
    if not isinstance(found, Class) or found.code is not node:
        around = _definitions_around(tree, node)
        outer = around[-1] if around else None
        if isinstance(outer, ast.ClassDef):
            holder = _find_class(m, frame, tree, outer)
            found = holder.members.get(node.name) if holder is not None else None
        elif outer is not None:
            found = m.define_class(node)
    return found if isinstance(found, Class) else None


def _definitions_around(tree: ast.Module, node: ast.ClassDef) -> tuple[ast.AST, ...]:
    """The functions and classes that a class lies in, outermost first."""
    waiting: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, ())]
    while waiting:
        inner_node, around = waiting.pop()
        if inner_node is node:
            return around
        inner = (*around, inner_node) if isinstance(inner_node, DEFINITIONS) else around
        waiting.extend((child, inner) for child in ast.iter_child_nodes(inner_node))
    return ()
