"""From source to tapes: what to start from, and each path through it in turn."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from gradkeeper.lint import functions, objects, statements
from gradkeeper.lint.attributes import bind
from gradkeeper.lint.nodes import Node
from gradkeeper.lint.paths import Choices, Explorer
from gradkeeper.lint.rehearsal import LongerWindowError, Loop, OutOfBudgetError, Rehearsal
from gradkeeper.lint.strangers import steps_unseen
from gradkeeper.lint.strays import adopt_early, settle
from gradkeeper.lint.survey import Survey
from gradkeeper.lint.syntax import FUNCTIONS
from gradkeeper.lint.values import Class, Frame, Function, Instance, Module, Opaque, Value
from gradkeeper.lint.vocabulary import OPTIMIZERS
from gradkeeper.model import events as ev
from gradkeeper.model.site import Site

FIRST_OPERATIONS = 12_000
OPERATIONS_A_LINE = 40
MOST_ROOTS = 12
BACKWARDS = {"backward", "manual_backward", "requires_grad"}
"""What fills gradients, by the names a survey notes; the last one stands for `.grad` itself."""
MOST_OPERATIONS = 90_000


@dataclass(slots=True)
class Run:
    """One path: what happened on it, and how far to trust it."""

    tape: list[ev.Event]
    choices: dict[str, bool]
    doubts: tuple[str, ...] = ()
    faulty: bool = False
    spends: bool = True
    """Something is spent on it; a path without any step speaks neither for nor against."""
    windowed: bool = False
    """The source tells how many batches make a window."""
    steps_elsewhere: bool = False
    """Code that is not seen may step."""


@dataclass(slots=True)
class Program:
    tree: ast.Module
    survey: Survey
    file: str
    project: Value = None
    visited: set[ast.AST] = field(default_factory=set)
    finished: dict[ast.AST, bool] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    left: list[ast.AST] = field(default_factory=list)
    """Training functions that were never entered, because there was too much before them."""

    @property
    def budget(self) -> int:
        """Paths are followed while they cost no more than reading the file some times over."""
        last = self.tree.body[-1] if self.tree.body else None
        lines = getattr(last, "end_lineno", 0) or 0
        return min(MOST_OPERATIONS, FIRST_OPERATIONS + OPERATIONS_A_LINE * lines)


def roots(program: Program) -> Iterator[list[Run]]:
    """The runs of the module itself, then of each training function that it never reached."""
    yield explore(program, None)
    for _ in range(MOST_ROOTS):
        root = _next_root(program)
        if root is None:
            return
        if program.operations > program.budget:
            break
        program.visited.add(root)
        yield explore(program, root)
    program.left = _waiting(program)


def _next_root(program: Program) -> ast.AST | None:
    """A loud function that nobody has entered; callers come before what they call."""
    survey = program.survey
    waiting = _waiting(program)
    if not waiting:
        return None
    called = {name for node in waiting for name in survey.calls.get(node, ())}
    for node in reversed(waiting):
        if node.name not in called:  # type: ignore[attr-defined]
            return node
    return waiting[-1]


def _waiting(program: Program) -> list[ast.AST]:
    survey = program.survey
    return [
        node
        for node in survey.order
        if node in survey.loud and node not in program.visited and _trains(node, survey)
    ]


def _trains(node: ast.AST, survey: Survey) -> bool:
    name = node.name  # type: ignore[attr-defined]
    return name in survey.backs or "step" in survey.calls.get(node, ())


def explore(program: Program, root: ast.AST | None) -> list[Run]:
    explorer = Explorer()
    runs: dict[tuple[object, ...], Run] = {}
    gate = 1
    while (choices := explorer.next()) is not None:
        rehearsal = run(program, root, choices, gate)
        while rehearsal.seen_gate > gate:
            gate = rehearsal.seen_gate
            choices = Choices(choices.script)
            rehearsal = run(program, root, choices, gate)
        program.operations += rehearsal.operations
        spends = any(isinstance(one, (ev.Step, ev.Move)) for one in rehearsal.tape)
        rehearsal.steps_elsewhere = rehearsal.steps_elsewhere or program.survey.steps_elsewhere
        new = _add(runs, rehearsal, choices, spends)
        # What runs beside a path that is too long to finish would be too long as well.
        if new and (spends or explorer.runs == 1) and not rehearsal.exhausted:
            explorer.learn(choices)
        if program.operations > program.budget:
            break
    return list(runs.values())


def _add(
    runs: dict[tuple[object, ...], Run], rehearsal: Rehearsal, choices: Choices, spends: bool
) -> bool:
    """Paths that leave the same tape are one: False if this one has been there before."""
    key = tuple(map(id, rehearsal.tape)) if len(rehearsal.tape) > 4000 else tuple(rehearsal.tape)
    if key in runs:
        return False
    runs[key] = Run(rehearsal.tape, dict(choices.asked), tuple(rehearsal.doubts))
    runs[key].spends = spends
    runs[key].faulty = rehearsal.failing >= 2
    runs[key].windowed = rehearsal.gate > 1
    runs[key].steps_elsewhere = rehearsal.steps_elsewhere
    return True


def run(program: Program, root: ast.AST | None, choices: Choices, gate: int) -> Rehearsal:
    r = Rehearsal(choices, gate=gate, project=program.project, abroad=root is not None)
    frame = Frame({}, None, None, "<module>", program.survey, program.file)
    frame.names["__name__"] = "__main__" if root is None else "module"
    frame.names["__file__"] = program.file
    r.frame = frame
    try:
        if root is None:
            statements.block(r, program.tree.body)
        else:
            _prepare_module(r, program.tree)
            _start(r, root, program)
    except LongerWindowError:
        return r
    except OutOfBudgetError:
        r.doubt("too large to rehearse to the end")
    except RecursionError:
        r.doubt("nested too deeply")
    r.frame = frame
    r.post(ev.Close(site=Site(program.file, 1), early=r.cut_short))
    adopt_early(r.tape, {one.name for one in r.optims if not one.known})
    if not settle(r.tape):
        r.doubt("which optimizer a loss is for cannot be told")
    if steps_unseen(r.tape) and not r.asked_for_gradients:
        r.doubt("no backward that could be seen")
    program.visited |= r.visited
    for loop, stepped in r.finished.items():
        program.finished[loop] = program.finished.get(loop, False) or stepped
    for why in r.doubts:
        program.reasons[why] = program.reasons.get(why, 0) + 1
    return r


def _prepare_module(r: Rehearsal, tree: ast.Module) -> None:
    """Definitions and constants only: what the module does by itself was rehearsed before."""
    quiet = (ast.Import, ast.ImportFrom, ast.ClassDef, *FUNCTIONS, ast.Assign, ast.AnnAssign)
    for statement in tree.body:
        if isinstance(statement, (*quiet, ast.Try)) or _evals(statement):
            if statement not in r.frame.survey.loud or isinstance(
                statement, (*FUNCTIONS, ast.ClassDef)
            ):
                statements.block(r, [statement])


def _evals(statement: ast.stmt) -> bool:
    """`model.eval()`: it says that nobody means to train it."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "eval"


def _start(r: Rehearsal, root: ast.AST, program: Program) -> None:
    """Calls a function as its unknown caller would: once, with unknown arguments."""
    assert isinstance(root, FUNCTIONS)
    home = program.survey.owners.get(root)
    if home is None:
        function = r.frame.names.get(root.name)
        if not isinstance(function, Function) or function.node is not root:
            from gradkeeper.lint.definitions import make

            function = make(r, root, r.frame)
        _call(r, function, root)
        return
    cls = r.frame.names.get(home.name)
    if not isinstance(cls, Class):
        return
    _call_method(r, cls, root)


def _call_method(r: Rehearsal, cls: Class, root: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    kind = objects.kind_of(cls)
    me: Value
    if kind == "optimizer":
        return
    if kind == "module":
        me = Module(Node("self", trainable=False), cls, ([], {}))
    elif kind == "lightning" and not objects._trains_by_hand(cls):
        return
    else:
        me = Instance(cls)
        hint, r.hint = r.hint, ""
        objects._construct(r, cls, me, [], {}, root)
        r.hint = hint
        _fill_in(me, program_methods(r))
        _fill_in_results(me, root)
    found = cls.members.get(root.name)
    if not isinstance(found, Function):
        return
    bound = bind(r, found, me)
    if kind == "lightning" and root.name == "training_step":
        _drive(r, bound, root)
    elif isinstance(bound, Function):
        _call(r, bound, root)


def program_methods(r: Rehearsal) -> dict[str, set[str]]:
    return r.frame.survey.methods if r.frame.survey is not None else {}


def _fill_in(me: Instance, methods: dict[str, set[str]]) -> None:
    """`self.optimizer = None` in __init__, and used later: somebody sets it in between."""
    for name, value in me.attrs.items():
        if value is None and methods.get(name):
            me.attrs[name] = Opaque(f"self.{name}")


def _fill_in_results(me: Instance, root: ast.AST) -> None:
    """`self.log_prob = None` in __init__, set by another method: a tensor by the time of use."""
    empty = {name for name, value in me.attrs.items() if value is None}
    if not empty:
        return
    for method in me.cls.node.body:
        if isinstance(method, FUNCTIONS) and method is not root and method.name != "__init__":
            for name in empty & _stored(method):
                me.attrs[name] = Opaque(f"self.{name}", maybe=True)


@lru_cache(maxsize=256)
def _stored(method: ast.AST) -> frozenset[str]:
    """The attributes that a method sets; asked again on every path."""
    return frozenset(
        one.attr
        for one in ast.walk(method)
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
    )


def _call(r: Rehearsal, function: Function, root: ast.AST) -> None:
    """A function that does all a batch needs, zeroing included, is called for one after another."""
    if not _is_whole_step(root, r.frame.survey):
        functions.enter(r, function, [], {}, root)
        return
    names = [one.arg for one in function.node.args.args]
    given = [Opaque(name) for name in names[1 if function.is_bound else 0 :]]
    loop = Loop(root, data=True)
    r.loops.append(loop)
    for _ in range(r.batches):
        r.fetch(root, "caller")
        functions.enter(r, function, _worth_binding(given, r, function), {}, root)
    r.loops.pop()


def _worth_binding(given: list[Opaque], r: Rehearsal, function: Function) -> list[Value]:
    """The same unknown arguments in each round; those with defaults are left to them."""
    required = len(function.node.args.args) - len(function.defaults)
    required -= 1 if function.is_bound else 0
    gates = function.frame.survey.gates if function.frame.survey is not None else ()
    return [2 if one.name in gates else one for one in given[:required]]


def _is_whole_step(root: ast.AST, survey: Survey) -> bool:
    called = survey.calls.get(root, set())
    loops = any(
        isinstance(one, (ast.For, ast.While)) and one in survey.loud for one in ast.walk(root)
    )
    whole = "zero_grad" in called and "step" in called and bool(called & BACKWARDS)
    # One that builds its optimizer is a try-out, for all that can be seen.
    return whole and not loops and not called & OPTIMIZERS


def _drive(r: Rehearsal, method: Function, root: ast.AST) -> None:
    """Lightning calls training_step for each batch, and leaves the gradients to it."""
    for _ in range(2):
        site = r.site(root)
        r.post(ev.EpochBegin(site=site, source="loader"))
        total = r.batches
        loop = Loop(root, data=True)
        r.loops.append(loop)
        for index in range(total):
            loop.last = index == total - 1
            r.fetch(root, "loader")
            functions.enter(r, method, [Opaque("batch", data=True), index], {}, root)
        r.loops.pop()
        r.post(ev.EpochEnd(site=site, source="loader"))
