"""One look over a file before its rehearsal: what is worth entering, and what gates a loop.

Loud code makes events (backward, step, zero_grad, ...), directly or through functions of the same
file. Only for loud code are unknown branches followed both ways.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradkeeper.lint.copies import note_blend, note_copy
from gradkeeper.lint.gates import BRANCHES, HOLDERS, find_gates
from gradkeeper.lint.loop_kinds import describe_loops
from gradkeeper.lint.syntax import FUNCTIONS, LOOPS, called_name, children, names_parameters
from gradkeeper.lint.vocabulary import (
    LOUD_ATTRIBUTES,
    LOUD_METHODS,
    LOUD_NAMES,
    SCALER_NAME,
    UNSYNCED,
)

LEAVES = (ast.Name, ast.Constant)
GATHERING = (ast.GeneratorExp, ast.ListComp)
TELLING = frozenset((ast.Call, ast.Attribute, *BRANCHES, *HOLDERS, *GATHERING))
"""Kinds of nodes that any later look asks for; names and constants make up half of a tree."""
NAMED_STEP = re.compile(r"^(?!(get|set|log|on|register|first|second)_)(\w+_step(_\w+)?|step_\w+)$")
"""More than `step` alone, which optimizers, schedulers and environments have."""


@dataclass(slots=True)
class Survey:
    loud: set[ast.AST] = field(default_factory=set)
    """Statements and functions that make events."""
    functions: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    gates: set[str] = field(default_factory=set)
    """Names that say how many batches make a window."""
    gating: set[ast.AST] = field(default_factory=set)
    """Expressions whose numbers count as gates."""
    methods: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By receiver's last name: the methods called on it."""
    owners: dict[ast.AST, ast.ClassDef] = field(default_factory=dict)
    order: list[ast.AST] = field(default_factory=list)
    texts: dict[ast.AST, str] = field(default_factory=dict)
    calls: dict[ast.AST, set[str]] = field(default_factory=dict)
    """By function: the names it calls."""
    training: list[ast.AST] = field(default_factory=list)
    """Innermost loops that reach a backward."""
    backs: set[str] = field(default_factory=set)
    """Functions that reach a backward."""
    yields: set[ast.AST] = field(default_factory=set)
    outer: set[ast.AST] = field(default_factory=set)
    """Loops around other loops that make events."""
    stepping: set[ast.AST] = field(default_factory=set)
    """Loops with a step inside."""
    closing: set[ast.AST] = field(default_factory=set)
    """Outer loops that step by themselves, after an inner one."""
    rounds: set[ast.AST] = field(default_factory=set)
    """Loops whose rounds matter: something is credited, spent or zeroed in them."""
    inert: set[ast.stmt] = field(default_factory=set)
    """Statements that a rehearsal may pass over."""
    dull: dict[tuple[ast.AST, bool], bool] = field(default_factory=dict)
    """Functions that were entered once, made no event and gave nothing of interest, with gradients
    on or off: whether they gave anything at all."""
    loaded: set[str] = field(default_factory=set)
    """Attributes that are read somewhere."""
    fetching: set[ast.AST] = field(default_factory=set)
    """Loops that fetch a batch in their own body."""
    drawing: set[ast.AST] = field(default_factory=set)
    """Loops that draw random data in their own body, not in a loop inside."""
    over_owned: dict[ast.AST, bool] = field(default_factory=dict)
    """Loops seen so far, and whether they run over parameters or optimizers."""
    one_shot: set[str] = field(default_factory=set)
    """Variables that hold an iterator over parameters."""
    copies: set[str] = field(default_factory=set)
    """Networks that take over another one's weights: `old.load_state_dict(new.state_dict())`."""
    bounds: set[ast.AST] = field(default_factory=set)
    """Comparisons that say how long a `while` goes on."""
    growing: set[str] = field(default_factory=set)
    """Variables and attributes that something is added to."""
    named_steps: set[str] = field(default_factory=set)
    """Called names that speak of a step: `trainer.update_step()`."""

    @property
    def steps_elsewhere(self) -> bool:
        """Some of them are defined out of sight."""
        return any(name not in self.functions for name in self.named_steps)

    def reaching(self, names: set[str]) -> set[str]:
        """The names, and all functions that call them, directly or not."""
        reached = set(names)
        callers: dict[str, set[str]] = defaultdict(set)
        for name, nodes in self.functions.items():
            for node in nodes:
                for called in self.calls.get(node, ()):
                    callers[called].add(name)
        waiting = list(names)
        while waiting:
            for caller in callers.get(waiting.pop(), ()):
                # Classes whose constructor trains would make every call of their name loud.
                if caller not in reached and caller not in ("__init__", "forward", "main_"):
                    reached.add(caller)
                    waiting.append(caller)
        return reached


def survey(tree: ast.Module, imported: frozenset[str] = frozenset()) -> Survey:
    """`imported`: names of loud functions that come from other files of the project."""
    from gradkeeper.lint.slices import inert

    found = Survey()
    order, parents = _walk(tree, found)
    loud_names = found.reaching(set(LOUD_METHODS) | set(LOUD_NAMES) | set(imported))
    found.backs = found.reaching({"backward", "manual_backward"})
    _mark(order, parents, found, loud_names)
    find_gates(order, parents, found)
    describe_loops(found, parents)
    found.inert = inert(tree, found)
    return found


def _walk(tree: ast.Module, found: Survey) -> tuple[list[ast.AST], dict[ast.AST, ast.AST]]:
    """The nodes that tell something, in order, and who holds whom.

    Iterative, since real files nest thousands of levels deep.
    """
    order: list[ast.AST] = []
    parents: dict[ast.AST, ast.AST] = {}
    stack: list[tuple[ast.AST, ast.AST | None, ast.ClassDef | None]] = [(tree, None, None)]
    while stack:
        node, function, home = stack.pop()
        kind = type(node)
        if kind in TELLING:
            order.append(node)
        if kind in FUNCTIONS:
            found.functions[node.name].append(node)  # type: ignore[attr-defined]
            found.order.append(node)
            if home is not None and function is None:
                found.owners[node] = home
            function, home = node, None
            found.calls.setdefault(node, set())
        elif kind is ast.ClassDef:
            home = node  # type: ignore[assignment]
            function = None
        elif kind is ast.Call:
            _note_call(node, function, found)  # type: ignore[arg-type]
        elif kind is ast.Attribute:
            _note_attribute(node, function, found)  # type: ignore[arg-type]
        elif kind in NOTED:
            NOTED[kind](node, found)
        elif kind is ast.GeneratorExp:
            _note_generator(node, parents, found)  # type: ignore[arg-type]
        elif kind in (ast.Yield, ast.YieldFrom) and function is not None:
            found.yields.add(function)
        for child in children(node):
            if type(child) not in LEAVES:
                parents[child] = node
                stack.append((child, function, home))
    return order, parents


def _note_growth(node: ast.AugAssign, found: Survey) -> None:
    if isinstance(node.op, ast.Add):
        found.growing.add(str(getattr(node.target, "attr", getattr(node.target, "id", ""))))


def _note_bounds(node: ast.While, found: Survey) -> None:
    found.bounds.update(one for one in ast.walk(node.test) if isinstance(one, ast.Compare))


NOTED: dict[type[ast.AST], Callable[[Any, Survey], None]] = {
    ast.AugAssign: _note_growth,
    ast.While: _note_bounds,
    ast.For: note_blend,
}


def _note_generator(node: ast.GeneratorExp, parents: dict[ast.AST, ast.AST], found: Survey) -> None:
    above = parents.get(node)
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        if isinstance(node.elt, ast.Name) and names_parameters(node.generators[0].iter):
            found.one_shot.add(above.targets[0].id)


def _note_attribute(node: ast.Attribute, function: ast.AST | None, found: Survey) -> None:
    if isinstance(node.ctx, ast.Load):
        found.loaded.add(node.attr)
    if node.attr in LOUD_ATTRIBUTES and function is not None:
        found.calls[function].add("requires_grad")


def _note_call(call: ast.Call, function: ast.AST | None, found: Survey) -> None:
    func = call.func
    if isinstance(func, ast.Attribute):
        name = func.attr
        receiver = func.value
        if isinstance(receiver, ast.Call):
            receiver = receiver.func
        if isinstance(receiver, ast.Subscript):
            receiver = receiver.value
        if isinstance(receiver, (ast.Name, ast.Attribute)):
            last = receiver.id if isinstance(receiver, ast.Name) else receiver.attr
            found.methods[last].add(name)
            if name == "load_state_dict":
                note_copy(call, last, found)
    elif isinstance(func, ast.Name):
        name = func.id
    else:
        return
    if "step" in name and NAMED_STEP.search(name):
        found.named_steps.add(name)
    if function is not None:
        found.calls.setdefault(function, set()).add(name)


def _mark(
    order: list[ast.AST],
    parents: dict[ast.AST, ast.AST],
    found: Survey,
    loud_names: set[str],
) -> None:
    """Marks each statement above a loud expression, up to its function, and loops that train."""
    for node in order:
        if _is_loud(node, loud_names) or (found.one_shot and _uses_up(node, found)):
            above: ast.AST | None = node
            while above is not None and above not in found.loud:
                found.loud.add(above)
                if isinstance(above, (*FUNCTIONS, ast.ClassDef)):
                    break
                above = parents.get(above)
    found.training = _training_loops(order, parents, found)


def _training_loops(
    order: list[ast.AST], parents: dict[ast.AST, ast.AST], found: Survey
) -> list[ast.AST]:
    loops: dict[ast.AST, None] = {}
    for node in order:
        if not isinstance(node, ast.Call):
            continue
        name = called_name(node)
        if name not in found.backs:
            continue
        above = parents.get(node)
        while above is not None and not isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            if isinstance(above, LOOPS):
                loops[above] = None
                break
            above = parents.get(above)
    return list(loops)


def _uses_up(node: ast.AST, found: Survey) -> bool:
    if not isinstance(node, GATHERING):
        return False
    source = node.generators[0].iter
    return isinstance(source, ast.Name) and source.id in found.one_shot


def _is_loud(node: ast.AST, loud_names: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        if node.attr in LOUD_ATTRIBUTES or node.attr in UNSYNCED:
            return True
        if node.attr == "update":
            receiver = node.value
            name = getattr(receiver, "id", None) or getattr(receiver, "attr", None)
            return bool(name and SCALER_NAME.search(name))
        return False
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Attribute):
            return func.attr in loud_names
        if isinstance(func, ast.Name):
            return func.id in loud_names or SCALER_NAME.search(func.id) is not None
    return False
