"""One look over a file before its rehearsal: what is worth entering, and what gates a loop.

Loud code makes events (backward, step, zero_grad, ...), directly or through functions of the same
file. Only for loud code are unknown branches followed both ways.
"""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass, field

from gradkeeper.lint.vocabulary import (
    LOUD_ATTRIBUTES,
    LOUD_METHODS,
    LOUD_NAMES,
    SCALER_NAME,
    UNSYNCED,
)
from gradkeeper.lint.words import words

FETCH = re.compile(r"^next$|next_batch|get_batch|sample|fetch|get_data", re.I)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MOVING = {"backward", "manual_backward", "step", "zero_grad", "optimizer_step"}
RANDOM = frozenset({"randn", "rand", "randint", "randperm", "normal", "uniform", "choice"})
PARAMETERS = frozenset({"parameters", "named_parameters", "param_groups", "params"})
LOOPS = (ast.For, ast.While, ast.AsyncFor)
PLAIN_FIELDS = words(
    """ctx op ops id attr arg name names kind conversion type_comment type_ignores module level
    is_async simple rest kwd_attrs asname str"""
)
"""What holds no node, or none that matters; a Constant's value is left out by itself."""
FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(one for one in kind._fields if one not in PLAIN_FIELDS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Constant: (), ast.MatchSingleton: ()}
LEAVES = (ast.Name, ast.Constant)
BRANCHES = (ast.If, ast.IfExp, ast.While)
HOLDERS = (ast.Assign, ast.keyword, ast.Return)
GATHERING = (ast.GeneratorExp, ast.ListComp)
TELLING = frozenset((ast.Call, ast.Attribute, *BRANCHES, *HOLDERS, *GATHERING))
"""Kinds of nodes that any later look asks for; names and constants make up half of a tree."""


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


def survey(tree: ast.Module, imported: frozenset[str] = frozenset()) -> Survey:
    """`imported`: names of loud functions that come from other files of the project."""
    from gradkeeper.lint.slices import inert

    found = Survey()
    order, parents = _walk(tree, found)
    loud_names = _reaching(found, set(LOUD_METHODS) | set(LOUD_NAMES) | set(imported))
    found.backs = _reaching(found, {"backward", "manual_backward"})
    _mark(order, parents, found, loud_names)
    _find_gates(order, found)
    _describe_loops(found, parents)
    found.inert = inert(tree, found)
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """As ast.iter_child_nodes, without contexts and operators; half of all time was spent there."""
    found: list[ast.AST] = []
    for name in FIELDS[type(node)]:
        value = getattr(node, name)
        if type(value) is list:
            found += value
        elif value is not None:
            found.append(value)
    return [one for one in found if one is not None] if None in found else found


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
        elif kind is ast.GeneratorExp:
            _note_generator(node, parents, found)  # type: ignore[arg-type]
        elif kind in (ast.Yield, ast.YieldFrom) and function is not None:
            found.yields.add(function)
        for child in children(node):
            if type(child) not in LEAVES:
                parents[child] = node
                stack.append((child, function, home))
    return order, parents


def _note_generator(node: ast.GeneratorExp, parents: dict[ast.AST, ast.AST], found: Survey) -> None:
    above = parents.get(node)
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        if isinstance(node.elt, ast.Name) and _names_parameters(node.generators[0].iter):
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
        if isinstance(receiver, ast.Name):
            found.methods[receiver.id].add(name)
        elif isinstance(receiver, ast.Attribute):
            found.methods[receiver.attr].add(name)
    elif isinstance(func, ast.Name):
        name = func.id
    else:
        return
    if function is not None:
        found.calls.setdefault(function, set()).add(name)


def _reaching(found: Survey, names: set[str]) -> set[str]:
    """The names, and all functions that call them, directly or not."""
    reached = set(names)
    callers: dict[str, set[str]] = defaultdict(set)
    for name, nodes in found.functions.items():
        for node in nodes:
            for called in found.calls.get(node, ()):
                callers[called].add(name)
    waiting = list(names)
    while waiting:
        for caller in callers.get(waiting.pop(), ()):
            # Classes whose constructor trains would make every call of their name loud.
            if caller not in reached and caller not in ("__init__", "forward", "main_"):
                reached.add(caller)
                waiting.append(caller)
    return reached


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
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", None)
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


def _find_gates(order: list[ast.AST], found: Survey) -> None:
    for node in order:
        if isinstance(node, BRANCHES):
            if node in found.loud:
                _gates_in(node.test, found, compares=isinstance(node, ast.If))
            elif isinstance(node, ast.If) and _continues(node):
                _gates_in(node.test, found, compares=False)
        elif isinstance(node, HOLDERS):
            if isinstance(node.value, (ast.Compare, ast.BoolOp)):
                _gates_in(node.value, found, compares=False)


def _continues(node: ast.If) -> bool:
    return any(isinstance(one, ast.Continue) for one in node.body)


def _gates_in(test: ast.AST, found: Survey, *, compares: bool) -> None:
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            found.gating.add(node)
            _note_gate(node.right, found)
        elif compares and isinstance(node, ast.Compare) and len(node.ops) == 1:
            if isinstance(node.ops[0], (ast.Eq, ast.GtE)):
                found.gating.add(node)


def _note_gate(node: ast.expr, found: Survey) -> None:
    if isinstance(node, ast.Name):
        found.gates.add(node.id)
    elif isinstance(node, ast.Attribute):
        found.gates.add(node.attr)


def _function_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    above: ast.AST | None = node
    while above is not None:
        if isinstance(above, FUNCTIONS):
            return above.name
        above = parents.get(above)
    return ""


def _describe_loops(found: Survey, parents: dict[ast.AST, ast.AST]) -> None:
    steps = _reaching(found, {"step", "optimizer_step"})
    loops = [node for node in found.loud if isinstance(node, LOOPS)]
    rounds = [loop for loop in loops if not _over_owned(loop, found)]
    looping = _reaching(found, {_function_of(loop, parents) for loop in rounds} - {""})
    moving = _reaching(found, MOVING)
    random = _reaching(found, set(RANDOM)) - moving
    for loop in loops:
        _describe(loop, found, steps, looping, moving, random)


def _describe(
    loop: ast.AST,
    found: Survey,
    steps: set[str],
    looping: set[str],
    moving: set[str],
    random: set[str],
) -> None:
    stack: list[tuple[ast.AST, bool]] = [
        (one, True)
        for one in (*loop.body, *loop.orelse)  # type: ignore[attr-defined]
    ]
    while stack:
        node, direct = stack.pop()
        if isinstance(node, FUNCTIONS):
            continue
        if isinstance(node, LOOPS) and node in found.loud and not _over_owned(node, found):
            if _moves(node, moving):
                found.outer.add(loop)
            direct = False
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            found.rounds.add(loop)
        if isinstance(node, ast.Call):
            func = node.func
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            if name in looping:
                found.outer.add(loop)
            if name in moving or SCALER_NAME.search(name):
                found.rounds.add(loop)
            if name in steps:
                found.stepping.add(loop)
                if direct and name == "step":
                    found.closing.add(loop)
            if direct and FETCH.search(name):
                found.fetching.add(loop)
            if direct and name in random:
                found.drawing.add(loop)
        stack.extend((child, direct) for child in children(node))


def _over_owned(loop: ast.AST, found: Survey) -> bool:
    """A loop over parameters or over optimizers: its rounds are no batches."""
    if not isinstance(loop, ast.For):
        return False
    known = found.over_owned.get(loop)
    if known is None:
        known = found.over_owned[loop] = _names_parameters(loop.iter) or _only_its_own(loop, found)
    return known


def _names_parameters(iterable: ast.expr) -> bool:
    for node in ast.walk(iterable):
        name = getattr(node, "attr", getattr(node, "id", getattr(node, "value", None)))
        if name in PARAMETERS:
            return True
    return False


def _only_its_own(loop: ast.For, found: Survey) -> bool:
    """What it steps and zeroes is what it runs over, and there is no backward in it."""
    targets = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    owned = False
    for statement in loop.body:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call):
                continue
            func = node.func
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            if name in found.backs or SCALER_NAME.search(name):
                return False
            if name in ("step", "zero_grad") and isinstance(func, ast.Attribute):
                parts = (func.value, *node.args)
                if not any(isinstance(one, ast.Name) and one.id in targets for one in parts):
                    return False
                owned = True
    return owned


def _moves(loop: ast.AST, moving: set[str]) -> bool:
    for node in ast.walk(loop):
        if isinstance(node, ast.Call):
            func = node.func
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            if name in moving or SCALER_NAME.search(name):
                return True
    return False
