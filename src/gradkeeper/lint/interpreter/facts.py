"""What one look at the source tells: which code can matter, which loops train, who sets what.

Every statement is read once into a `Line`: the words in it, what it assigns, what lies inside it.
All questions are then answered from those. They decide what is worth following, never a verdict:
what is skipped leaves unknown values behind, and a branch that was taken for irrelevant and is not
is corrected by the machine.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
LOOPS_AND_FUNCTIONS = (*LOOPS, *FUNCTIONS)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CREDITS = _words("backward manual_backward")
SPENDS = _words("step optimizer_step")
ENTRIES = CREDITS | SPENDS
LOUD = (
    CREDITS
    | SPENDS
    | _words(
        """zero_grad grad _grad requires_grad requires_grad_ unscale_ no_sync no_backward_sync
        accumulate clip_grad_norm_ clip_grad_value_ clip_grad_norm clip_gradients scale_loss
        toggle_optimizer untoggle_optimizer require_backward_grad_sync set_requires_gradient_sync
        register_step_pre_hook register_step_post_hook register_post_accumulate_grad_hook
        autocast GradScaler add_param_group param_groups load_state_dict set_to_none"""
    )
)
"""Attributes and names whose use is part of a gradient's life."""
WHEN_CALLED = _words("step optimizer_step accumulate")
"""Those of them that are also what people call their numbers."""
LOUD_AS_SUCH = LOUD - WHEN_CALLED
WINDOWS = SPENDS | _words(
    """zero_grad unscale_ no_sync no_backward_sync require_backward_grad_sync clip_grad_norm_
    clip_grad_value_ clip_grad_norm set_requires_gradient_sync step_update"""
)
"""What is done once for a window, or on all of its micro-batches but one."""
BUILDS = _words("parameters named_parameters optim")
"""Those that show where an optimizer is made or parameters are chosen."""
CHANGES = _words(
    """append extend insert add update pop remove clear setdefault popleft appendleft train eval to
    cuda cpu half float apply sort reverse add_module register_hook register_buffer load freeze
    register_module register_parameter put push"""
)
"""Methods that change what they are called on."""
ACTS = _words("step zero_grad backward parameters param_groups unscale_ named_parameters")
"""What shows that a name stands for something that takes part in training."""
OF_TORCH = _words("train eval step backward update zero_grad parameters to load_state_dict fit")
"""Methods of modules and optimizers that programs also name their own functions after."""
OF_MODULES = _words("parameters named_parameters eval state_dict zero_grad forward cuda to")
OF_NETWORKS = OF_TORCH - _words("step backward update fit")
"""Those of them that every network has."""
OF_MADE = _words("parameters named_parameters train eval zero_grad")
OF_WEIGHTS = _words("state_dict load_state_dict parameters named_parameters")
NO_WORDS: frozenset[str] = frozenset()
OF_OPTIMIZERS = _words("zero_grad param_groups")
OF_STEPPED = OF_OPTIMIZERS | _words("unscale_ scale")
OWNERS = _words("self cls")
SCHEDULES = "torch.optim.lr_scheduler"
OF_SCALERS = _words("scale unscale_")
SAVES = _words("state_dict save")
"""What is worth running, though nothing is decided by it."""
HANDS_BACK = _words("backward manual_backward scale")
"""Functions that are given a loss to go back from."""
DRIVES = _words(
    """fit run launch first_step second_step add_event_handler save_state load_state
    automatic_optimization gradient_accumulation_steps"""
)
"""What sets a framework going, or tells it how: read there, not in the program."""
KEPT = BUILDS | SAVES | DRIVES
GATHERS = _words("append extend add insert register")
"""Methods that keep what they are given, to hand it out later."""
MOST_HANDED_ON = 4
"""Names that a function goes by, one after the other."""


@dataclass(slots=True, eq=False)
class Line:
    """A statement, or a function or class as a whole."""

    node: ast.AST
    words: set[str] = field(default_factory=set)
    """Names and attributes in it, what lies inside it aside."""
    refers: set[str] = field(default_factory=set)
    """Those of its words that may stand for a function of the program."""
    asks: set[tuple[str, str]] = field(default_factory=set)
    """Methods of PyTorch's names, with whom they are asked of: `model`, `train`."""
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


@dataclass(frozen=True, slots=True)
class TrainingFunction:
    """A function that credits or spends, by itself or by what it calls."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    file: str
    home: ast.ClassDef | None
    refers: set[str]
    """The names in it, as far as they may stand for functions."""
    by_itself: bool


@dataclass(slots=True)
class Facts:
    """Facts of all files of a program; nodes are known by their id."""

    loud: set[int] = field(default_factory=set)
    """Statements and functions that may do something to gradients."""
    assigned: set[str] = field(default_factory=set)
    """Names that some statement sets."""
    skipped: set[int] = field(default_factory=set)
    """Statements of which nothing comes that matters to training."""
    gates: set[int] = field(default_factory=set)
    """Remainders on which something loud depends."""
    periods: set[int] = field(default_factory=set)
    """Those of them that tell how many micro-batches make a window."""
    moduli: dict[int, str] = field(default_factory=dict)
    """By remainder: the name of what is divided by."""
    dividends: dict[int, str] = field(default_factory=dict)
    """By remainder: the name of what is divided."""
    counted: set[str] = field(default_factory=set)
    """Variables that count micro-batches."""
    window_names: set[str] = field(default_factory=set)
    """Variables that say how many micro-batches make a window."""
    sizes: set[str] = field(default_factory=set)
    """Those of them on which something of a window depends."""
    gate_words: set[str] = field(default_factory=set)
    """What stands in the tests that count micro-batches."""
    counters: set[int] = field(default_factory=set)
    """Tests over a counter that their own body sets back."""
    loud_names: set[str] = field(default_factory=set)
    credit_names: set[str] = field(default_factory=set)
    step_names: set[str] = field(default_factory=set)
    steps_somewhere: bool = False
    """Some line of the program steps an optimizer, or has a scaler do it."""
    loop_names: set[str] = field(default_factory=set)
    """Functions with a loop that trains, or that call one."""
    whole_loops: set[int] = field(default_factory=set)
    """Functions with a loop that takes the steps, or that call one: each call is an epoch."""
    training: list[ast.AST] = field(default_factory=list)
    """The innermost loops with a backward in them."""
    training_in: dict[str, list[ast.AST]] = field(default_factory=dict)
    """The same, by file."""
    told_in: dict[str, list[ast.AST]] = field(default_factory=dict)
    """By file, those and the loops around them that train beside them, as a GAN's outer one."""
    training_around: set[int] = field(default_factory=set)
    """The latter."""
    makers: set[int] = field(default_factory=set)
    """Calls of which something comes that takes part in training: each time another one."""
    bare: set[int] = field(default_factory=set)
    """Calls that are statements: nothing is made of what they say."""
    functions: list[tuple[ast.AST, ast.ClassDef | None]] = field(default_factory=list)
    functions_that_train: list[TrainingFunction] = field(default_factory=list)
    generators: set[int] = field(default_factory=set)
    setters: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    """By class: who sets an attribute, of its methods."""
    losses: set[str] = field(default_factory=set)
    """Variables that are handed to something that goes back from them."""
    uses: dict[str, set[str]] = field(default_factory=dict)
    """By the name of a variable or attribute: the attributes that are asked of it."""
    only_ways: dict[int, bool] = field(default_factory=dict)
    """Tests of which one answer ends in an exception, or leaves the program: the other one."""
    steps_if: set[tuple[int, bool]] = field(default_factory=set)
    """Tests, with the answer on which their branch spends, where the other one does not."""
    jumps: set[int] = field(default_factory=set)
    """Branches that leave their loop or function."""
    fills: set[int] = field(default_factory=set)
    """Loops that credit and do not spend."""
    over_tasks: set[int] = field(default_factory=set)
    """Such loops that go over losses, or over loaders: one of each, not batches of one kind."""
    credits: set[int] = field(default_factory=set)
    """Loops with a backward somewhere in them."""
    credits_itself: set[int] = field(default_factory=set)
    """Loops with a backward outside of the loops in them."""
    feeds: set[int] = field(default_factory=set)
    """Loops that take a step for each of their rounds, around one that credits."""
    tries: set[int] = field(default_factory=set)
    """Try blocks with a backward in them."""
    yielding: set[int] = field(default_factory=set)
    """Loops that hand something out: they run for as long as somebody asks."""
    blocks: dict[int, Any] = field(default_factory=dict)
    """Blocks without what is skipped, as they are run."""
    constants: dict[int, Any] = field(default_factory=dict)
    """The values of constants, of -1 and [1:] as well, once they were asked for."""
    kinds: dict[tuple[str, str | None], str] = field(default_factory=dict)
    """What the program uses things of a name as, once that was asked: also by a variable's name."""
    signatures: dict[int, Any] = field(default_factory=dict)
    """How functions take their arguments, once they were called."""
    imports: dict[str, list[ast.Import | ast.ImportFrom]] = field(default_factory=dict)
    """By file: where it imports something, as they are written."""
    _files: dict[str, Line] = field(default_factory=dict)
    _lines: dict[int, Line] = field(default_factory=dict)
    """By function."""
    _words: dict[int, set[str]] = field(default_factory=dict)
    _keys: dict[Hashable, int] = field(default_factory=dict)
    _joined: dict[tuple[str, str | None], set[str]] = field(default_factory=dict)
    _waiting: dict[str, dict[str, ast.stmt]] = field(default_factory=dict)

    def key_of(self, made: Hashable) -> int:
        """A number for a key, the same in all runs: nested keys would be hashed to their depth."""
        found = self._keys.get(made)
        if found is None:
            found = self._keys[made] = len(self._keys)
        return found

    def uses_of(self, name: str, other: str | None) -> set[str]:
        """What is asked of a variable or attribute that goes by one of two names."""
        found = self.uses.get(name)
        more = self.uses.get(other) if other else None
        if found is None or more is None:
            return found or more or _NOTHING
        known = self._joined.get((name, other))
        if known is None:
            known = self._joined[name, other] = found | more
        return known

    def read_files(self) -> Iterable[tuple[str, Line]]:
        return self._files.items()

    def does_something(self, file: str) -> bool:
        """Run as a script, the file calls something; else it only defines."""
        return any(line.calls for line in self._files[file].own())

    def can_wait(self, file: str) -> dict[str, ast.stmt]:
        """Functions and classes of a file that mean the same whenever they are defined.

        Each is the only one of its name, no decorator does anything with it, and what is asked for
        on the way was set before, for good. Most runs ask for few of them.
        """
        found = self._waiting.get(file)
        if found is None:
            found = self._waiting[file] = _can_wait(self._files[file])
        return found

    def functions_in(self, file: str) -> Iterator[ast.AST]:
        """All functions of a file, as they are written."""
        return (
            line.node for line in self._files[file].in_order() if isinstance(line.node, FUNCTIONS)
        )

    def words_of(self, function: ast.AST) -> set[str]:
        """The names and attributes in a function."""
        found = self._words.get(id(function))
        if found is None:
            lines = self._lines[id(function)].walk()
            found = self._words[id(function)] = {word for line in lines for word in line.words}
        return found

    def is_loud(self, node: ast.AST) -> bool:
        return id(node) in self.loud

    def add(self, files: Iterable[tuple[ast.Module, str]]) -> None:
        """Reads files of the program."""
        for tree, file in files:
            reader = _Reader(self)
            self._files[file] = reader.read(tree)
            self.imports[file] = reader.imports

    def speak_of_training(self) -> bool:
        """Some line that was read has to do with gradients, or sets a framework going."""
        words = LOUD | DRIVES | BUILDS
        return any(line.words & words for file in self._files.values() for line in file.walk())

    def survey(self) -> None:
        """Answers all questions, in the light of all files that were read."""
        _Survey(self, list(self._files.values())).run()


_NOTHING: set[str] = set()


class _Reader:
    """One walk over a tree, from nodes to lines."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.imports: list[ast.Import | ast.ImportFrom] = []

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
                if isinstance(node, ast.If) and _raises(node.body) != _raises(node.orelse):
                    self.facts.only_ways[id(node)] = not _raises(node.body)
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
                    line.adds.update(_summands(node.value))
                self._expression(line, node.value)
                self._target(line, node.target)
            case ast.AnnAssign():
                if node.value is not None:
                    self._expression(line, node.value)
                    self._target(line, node.target)
            case ast.Delete():
                for target in node.targets:
                    self._target(line, target)
            case ast.Import() | ast.ImportFrom():
                self.imports.append(node)
            case _:
                self._expression(line, node)
        return line

    def _target(self, line: Line, target: ast.expr) -> None:
        for part in _targets(target):
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
                    line.refers.add(word)
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
                    self.facts.losses.update(_summands(node.value))  # type: ignore[attr-defined]
                if id(node) in holders:
                    pass  # `config.train.lr`: something is asked of it, so it is no function
                elif word in OF_TORCH:
                    line.asks.add((of, word))
                    if word == "step":
                        line.steps_of.add(of)
                else:
                    line.refers.add(word)
                holders.add(id(node.value))  # type: ignore[attr-defined]
                stack.append(node.value)  # type: ignore[attr-defined]
                continue
            if kind is ast.Call:
                self._call(line, node)  # type: ignore[arg-type]
            elif kind is ast.BinOp and _counts(node):  # type: ignore[arg-type]
                line.remainders.append(id(node))
                self.facts.moduli[id(node)] = last_name(node.right)  # type: ignore[attr-defined]
                self.facts.dividends[id(node)] = counter_name(node.left)  # type: ignore[attr-defined]
            elif kind is ast.Yield or kind is ast.YieldFrom:
                line.gives = True
            elif kind is ast.GeneratorExp or kind is ast.ListComp:
                line.gathers = True
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

    def _call(self, line: Line, node: ast.Call) -> None:
        last = last_name(node.func)
        line.calls.add(last)
        if last == "append":
            for argument in node.args:
                line.adds.update(_summands(argument))
        if last in HANDS_BACK:
            self.facts.losses.update(last_name(argument) for argument in node.args)
        if isinstance(node.func, ast.Attribute) and (last in CHANGES or last.endswith("_")):
            line.sets.update(_last_names(node.func.value))
        if steps_in_one_call(node):
            line.spends_at_once = True


_PLAIN = _words(
    """ctx op ops attr id names arg kind type_comment conversion level module name asname rest
    kwd_attrs is_async"""
)
"""Fields of nodes that hold no further expression."""
_PARTS: dict[type[ast.AST], list[str]] = {}
"""The other fields, by kind of node."""


class _Survey:
    """Answers all questions from the lines of a program."""

    def __init__(self, facts: Facts, files: list[Line]) -> None:
        self.facts = facts
        self.files = files
        self.lines = [line for file in files for line in file.walk()]
        self.functions: dict[str, list[Line]] = {}
        for line in self.lines:
            if isinstance(line.node, DEFINITIONS):
                self.functions.setdefault(line.node.name, []).append(line)
        self.methods = {
            id(inner)
            for line in self.lines
            if isinstance(line.node, ast.ClassDef)
            for inner in line.inside
        }
        self.arguments = {
            argument.arg
            for lines in self.functions.values()
            for line in lines
            if isinstance(line.node, FUNCTIONS)
            for argument in (*line.node.args.args, *line.node.args.kwonlyargs)
        }

    def run(self) -> None:
        uses = self.facts.uses
        plain = {
            name
            for name, lines in self.functions.items()
            if any(id(line) not in self.methods for line in lines)
        }
        for line in self.lines:
            for of, word in line.asks:
                if not of:
                    if word in plain:
                        line.refers.add(word)
                elif word in self.functions and (
                    word not in OF_NETWORKS or not uses.get(of, set()) & OF_MODULES
                ):
                    line.refers.add(word)
                if word == "update" and uses.get(of, NO_WORDS) & OF_SCALERS:
                    line.acts.add("GradScaler")  # as loud as the rest of what a scaler does
            if not line.words.isdisjoint(LOUD):
                line.acts |= line.words & LOUD_AS_SUCH | line.calls & WHEN_CALLED
            for of in line.steps_of:
                if uses.get(of, NO_WORDS) & OF_OPTIMIZERS:
                    line.acts.add("step")
        self._note_makers()
        self._note_ticks()
        self.facts.bare = {
            id(line.node.value) for line in self.lines if isinstance(line.node, ast.Expr)
        }
        self.facts.steps_somewhere = any(
            "step" in line.calls and any(uses.get(of, set()) & OF_STEPPED for of in line.steps_of)
            for line in self.lines
            if line.steps_of
        )
        self._name_functions()
        for file in self.files:
            self._mark(file)
            self._find_gates(file)
        self._find_turning()
        self.facts.window_names = {self.facts.moduli[gate] for gate in self.facts.gates} - {""}
        self.facts.sizes = {self.facts.moduli[period] for period in self.facts.periods} - {""}
        self.facts.counted = {self.facts.dividends[gate] for gate in self.facts.gates} - {""}
        self._find_training()
        self._find_functions_that_train()
        self._keep_what_matters()

    def _note_makers(self) -> None:
        made = {name for name, found in self.facts.uses.items() if found & OF_MADE}
        calls = [
            (line.node, line.node.value)
            for line in self.lines
            if isinstance(line.node, ast.Assign) and isinstance(line.node.value, ast.Call)
        ]
        for node, called in calls * 2:
            if any(last_name(target) in made for target in node.targets):
                expression: ast.expr = called
                while isinstance(expression, ast.Call):
                    self.facts.makers.add(id(expression))  # both of `Net().to(device)`
                    expression = (
                        expression.func.value
                        if isinstance(expression.func, ast.Attribute)
                        else expression.func
                    )
                if isinstance(called.func, ast.Attribute):
                    made.add(last_name(expression))  # model = net.cuda()
        self._note_pairs(calls)

    def _note_ticks(self) -> None:
        """Where PyTorch's own schedules move on: that is no step, though it is called so."""
        imported = {
            name.asname or name.name
            for line in self.lines
            if isinstance(line.node, ast.ImportFrom)
            for name in line.node.names
            if SCHEDULES in f"{line.node.module}.{name.name}"
        }
        schedules = {
            last_name(target)
            for line in self.lines
            if isinstance(line.node, ast.Assign) and isinstance(line.node.value, ast.Call)
            if _is_part(line.node.value.func, imported)
            for target in line.node.targets
        }
        for line in self.lines if schedules else ():
            line.ticks = bool(line.steps_of) and line.steps_of <= schedules

    def _note_pairs(self, calls: list[tuple[ast.Assign, ast.Call]]) -> None:
        """What is made twice by the same name, if one of the two holds weights: both do."""
        makers: dict[str, list[tuple[ast.Assign, ast.Call]]] = {}
        for node, called in calls:
            makers.setdefault(last_name(called.func), []).append((node, called))
        for pair in makers.values():
            targets = {last_name(target) for node, _ in pair for target in node.targets}
            if len(targets) > 1 and any(
                self.facts.uses.get(name, NO_WORDS) & OF_WEIGHTS for name in targets
            ):
                self.facts.makers.update(id(called) for _, called in pair)

    def _name_functions(self) -> None:
        """Functions that are loud, that credit, that spend: by themselves or by what they call."""
        facts = self.facts
        words: dict[str, set[str]] = {}
        refers: dict[str, set[str]] = {}
        at_once: set[str] = set()
        for name, lines in self.functions.items():
            found = words.setdefault(name, set())
            named = refers.setdefault(name, set())
            for line in lines:
                if isinstance(line.node, ast.ClassDef):
                    continue
                for inner in line.own():
                    found |= inner.acts
                    named |= inner.refers
                    if inner.spends_at_once:
                        at_once.add(name)
                for inner in line.walk():
                    if inner is not line and isinstance(inner.node, FUNCTIONS):
                        named.add(inner.node.name)
        for names, seeds in (
            (facts.loud_names, LOUD),
            (facts.credit_names, CREDITS),
            (facts.step_names, SPENDS),
        ):
            names |= {name for name, found in words.items() if found & seeds} | at_once
            _spread(names, refers)
        by_another_name = self._other_names(facts.loud_names)
        if by_another_name:
            for names in (facts.loud_names, facts.credit_names, facts.step_names):
                _spread(names, {**refers, **_joined(refers, by_another_name)})

    def _other_names(self, functions: set[str]) -> dict[str, set[str]]:
        """By variable, attribute or argument that is called somewhere: the functions that it may
        stand for, as `run` does after `run = partial(train_step, model)`."""
        called = {name for line in self.lines for name in line.calls}
        found: dict[str, set[str]] = {}
        new = functions & self.functions.keys()
        for _ in range(MOST_HANDED_ON):
            names: set[str] = set()
            for line in self.lines:
                if line.refers.isdisjoint(new):
                    continue
                for target, function in self._handed_on(line, new):
                    known = found.setdefault(target, set())
                    if target != function and function not in known:
                        known.add(function)
                        names.add(target)
            new = names
            if not new:
                break
        return {name: given for name, given in found.items() if name in called}

    def _handed_on(self, line: Line, functions: set[str]) -> Iterator[tuple[str, str]]:
        """What a line lets one of these functions be called by: variable, and function."""
        node = line.node
        if isinstance(node, FUNCTIONS):
            for decorator in node.decorator_list:
                maker = decorator.func if isinstance(decorator, ast.Call) else decorator
                for target in self._arguments(last_name(maker), 0):
                    yield target, node.name
            return
        if isinstance(node, ast.Assign):
            for function in _plainly_in(node.value, functions):
                for assigned in node.targets:
                    yield from ((last_name(part), function) for part in _targets(assigned))
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            for function in _plainly_in(node.iter, functions):
                yield from ((last_name(part), function) for part in _targets(node.target))
        for call in _calls_in(node):
            if isinstance(call.func, ast.Attribute) and call.func.attr in GATHERS:
                for argument in call.args:
                    for function in _plainly_in(argument, functions):
                        yield last_name(call.func.value), function
            for place, argument in enumerate(call.args):
                for function in _plainly_in(argument, functions):
                    for target in self._arguments(last_name(call.func), place):
                        yield target, function
            for keyword in call.keywords:
                for function in _plainly_in(keyword.value, functions):
                    if last_name(call.func) in self.functions and keyword.arg:
                        yield keyword.arg, function

    def _arguments(self, called: str, place: int) -> Iterator[str]:
        """What the functions of a name call the argument at a place, also those inside them."""
        for line in self.functions.get(called, ()):
            for inner in (line, *line.walk()):
                node = inner.node
                if not isinstance(node, FUNCTIONS):
                    continue
                if isinstance(line.node, ast.ClassDef) and node.name != "__init__":
                    continue
                names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
                names = names[1:] if names[:1] in (["self"], ["cls"]) else names
                yield from names[place : place + 1]

    def _mark(self, line: Line) -> None:
        facts = self.facts
        acts = line.acts
        refers = line.refers
        spends = not refers.isdisjoint(facts.step_names)
        line.loud = bool(acts) or not line.words.isdisjoint(BUILDS)
        line.loud = line.loud or not refers.isdisjoint(facts.loud_names)
        line.credits = not acts.isdisjoint(CREDITS) or not refers.isdisjoint(facts.credit_names)
        line.spends = spends or not (line.ticks or acts.isdisjoint(SPENDS))
        line.closes = spends or not acts.isdisjoint(WINDOWS)
        if line.spends_at_once:
            line.loud = line.credits = line.spends = line.closes = True
        for inner in line.inside:
            self._mark(inner)
            if isinstance(inner.node, FUNCTIONS):
                continue  # a definition does nothing by itself
            if not isinstance(inner.node, ast.ClassDef):
                line.gives_inside = line.gives_inside or inner.gives or inner.gives_inside
                jumps = inner.jumps_inside or isinstance(inner.node, _JUMPS)
                line.jumps_inside = line.jumps_inside or jumps
            line.loud = line.loud or inner.loud
            line.credits = line.credits or inner.credits
            line.spends = line.spends or inner.spends
            line.closes = line.closes or inner.closes
        node = line.node
        if line.loud:
            facts.loud.add(id(node))
        if isinstance(node, LOOPS):
            if line.credits:
                facts.credits.add(id(node))
            if not line.spends:
                facts.fills.add(id(node))
                if line.credits and _goes_over_tasks(node):
                    facts.over_tasks.add(id(node))
            elif _feeds(line):
                facts.feeds.add(id(node))
            if line.gives_inside:
                facts.yielding.add(id(node))
        elif isinstance(node, (ast.Try, ast.TryStar)):
            if line.credits:
                facts.tries.add(id(node))
        elif isinstance(node, ast.If):
            if line.jumps_inside:
                facts.jumps.add(id(node))
            otherwise = {id(statement) for statement in node.orelse}
            spending = {id(inner.node) not in otherwise for inner in line.inside if inner.spends}
            if len(spending) == 1:
                facts.steps_if.add((id(node), spending.pop()))
        elif isinstance(node, FUNCTIONS):
            if line.gives_inside:
                facts.generators.add(id(node))
            self._find_gates(line)

    def _find_turning(self) -> None:
        """The loops that credit outside of the loops in them, also where a function does it.

        A function whose own loop does all of the training is an epoch of it, not a turn.
        """
        outside = {
            name: [inner for line in lines for inner in _outside_loops(line)]
            for name, lines in self.functions.items()
        }
        turning = {
            name
            for name, lines in self.functions.items()
            if any(line.spends and _feeds(line) for line in lines)
            or any(inner.acts & CREDITS or inner.spends_at_once for inner in outside[name])
        }
        refers = {
            name: {word for inner in lines for word in inner.refers}
            for name, lines in outside.items()
        }
        _spread(turning, refers)
        self.facts.credits_itself = {
            id(line.node)
            for line in self.lines
            if isinstance(line.node, LOOPS)
            and any(
                inner.acts & CREDITS or inner.refers & turning for inner in _outside_loops(line)
            )
        }

    def _find_gates(self, scope: Line) -> None:
        """The remainders and counters that decide about something loud."""
        facts = self.facts
        names: set[str] = set()
        closing: set[str] = set()
        own = list(scope.own())
        for line in own:
            test = isinstance(line.node, (ast.If, ast.While))
            leaves = test and id(line.node) in facts.jumps
            plain = isinstance(line.node, (ast.With, ast.AsyncWith, ast.Expr))
            if not (line.loud or leaves) or not (test or plain):
                continue
            facts.gates.update(line.remainders)
            names |= line.words
            if line.closes or leaves:
                facts.periods.update(line.remainders)
                closing |= line.words
            if test and line.remainders and line.spends:
                facts.gate_words |= line.words
            if isinstance(line.node, ast.If):
                self._note_counter(line)
        for line in own:
            returns = isinstance(line.node, ast.Return)
            if line.remainders and (line.sets & names or returns):
                facts.gates.update(line.remainders)
                facts.gate_words |= line.words
                if line.sets & closing or returns:
                    facts.periods.update(line.remainders)

    def _note_counter(self, line: Line) -> None:
        for inner in line.own():
            if isinstance(inner.node, ast.Assign) and isinstance(inner.node.value, ast.Constant):
                if inner.sets & line.words:
                    self.facts.counters.add(id(line.node))
                    self.facts.gate_words |= line.words

    def _find_training(self) -> None:
        facts = self.facts
        facts.training.clear()
        facts.training_around.clear()
        every = [line for line in self.lines if isinstance(line.node, LOOPS)]
        # Where no line credits anything, backward() may have been forgotten.
        loops = [line for line in every if line.credits] or [line for line in every if line.spends]
        inside = {id(loop) for loop in loops}
        words: dict[str, set[str]] = {}
        for name, lines in self.functions.items():
            for line in lines:
                if isinstance(line.node, ast.ClassDef):
                    continue
                words.setdefault(name, set()).update(*(inner.refers for inner in line.own()))
                if any(id(inner) in inside for inner in line.own()):
                    facts.loop_names.add(name)
        _spread(facts.loop_names, words)
        self._find_whole_loops()
        for loop in loops:
            nested = any(
                id(inner) in inside or inner.refers & facts.loop_names for inner in loop.own()
            )
            if not nested:
                facts.training.append(loop.node)
            elif any(map(self._credits_beside_loops, _outside_loops(loop))):
                facts.training_around.add(id(loop.node))
        innermost = {id(loop) for loop in facts.training}
        named = innermost | facts.training_around
        for file, whole in facts.read_files():
            told = [line.node for line in whole.in_order() if id(line.node) in named]
            facts.told_in[file] = told
            facts.training_in[file] = [node for node in told if id(node) in innermost]

    def _find_whole_loops(self) -> None:
        """By function, and not by name: another class may have a method of the same one."""
        loops: dict[int, bool] = {}
        refers: dict[int, set[str]] = {}
        names: dict[int, str] = {}
        for name, lines in self.functions.items():
            for line in lines:
                if isinstance(line.node, FUNCTIONS):
                    own = list(line.own())
                    names[id(line.node)] = name
                    refers[id(line.node)] = {word for inner in own for word in inner.refers}
                    loops[id(line.node)] = any(
                        isinstance(inner.node, LOOPS) and inner.credits and inner.spends
                        for inner in own
                    )
        with_loops = {names[function] for function, found in loops.items() if found}
        by_name: dict[str, set[str]] = {}
        for function, name in names.items():
            by_name.setdefault(name, set()).update(refers[function])
        _spread(with_loops, by_name)
        self.facts.whole_loops = {
            function
            for function, found in loops.items()
            if found or refers[function] & (with_loops - {names[function]})
        }

    def _credits_beside_loops(self, line: Line) -> bool:
        """A backward, its own or of a function in which no loop trains."""
        without_loops = self.facts.credit_names - self.facts.loop_names
        return bool(line.acts & CREDITS or line.refers & without_loops)

    def _find_functions_that_train(self) -> None:
        facts = self.facts
        homes = {id(node): home for node, home in facts.functions}
        names = facts.credit_names | facts.step_names
        facts.functions_that_train.clear()
        for file, whole in facts.read_files():
            for line in whole.in_order():
                node = line.node
                if isinstance(node, FUNCTIONS) and node.name in names:
                    own = list(line.own())
                    facts.functions_that_train.append(
                        TrainingFunction(
                            node,
                            file,
                            homes.get(id(node)),
                            {word for inner in own for word in inner.words},
                            any(inner.spends_at_once or inner.acts & ENTRIES for inner in own),
                        )
                    )

    def _keep_what_matters(self) -> None:
        """Skips statements whose values reach nothing loud."""
        setters: dict[str, list[Line]] = {}
        for line in self.lines:
            self.facts.assigned |= line.sets
            for word in line.sets:
                setters.setdefault(word, []).append(line)
        acting = {name for name, found in self.facts.uses.items() if found & ACTS} - OWNERS
        effects: set[str] = set()
        waiting = [line for line in self.lines if self._matters(line, acting)]
        waiting += self._done_by_holders()
        waiting += self._parts()
        waiting += self._guards()
        waiting += [line for line in self.lines if self._calls_a_variable(line)]
        # Behind an exit that no branch leads around, nothing happens.
        waiting += [line for file in self.files for line in file.inside if _leaves([line.node])]
        known: set[str] = set()
        while waiting:
            line = waiting.pop()
            if line.kept:
                continue
            line.kept = True
            for word in line.words - known:
                known.add(word)
                waiting.extend(setter for setter in setters.get(word, ()) if not setter.kept)
        self._keep_calls(effects)
        for file in self.files:
            self._skip(file)

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
        """Calls of functions that set something which matters, or that no file shows."""
        grown = True
        while grown:
            grown = False
            for name, lines in self.functions.items():
                if name in effects:
                    continue
                if any(
                    inner.kept and (inner.sets or self._calls_a_variable(inner))
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


def _joined(first: dict[str, set[str]], second: dict[str, set[str]]) -> dict[str, set[str]]:
    return {name: found | first.get(name, set()) for name, found in second.items()}


def _plainly_in(value: ast.expr, functions: set[str]) -> Iterator[str]:
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
            waiting += [call.func for call in ast.walk(node.body) if isinstance(call, ast.Call)]


def _calls_in(node: ast.AST) -> Iterator[ast.Call]:
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


def _can_wait(whole: Line) -> dict[str, ast.stmt]:
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
            if all(is_settled(word, place) for word in _asked_at_once(node)):
                found[name] = node
    return found


def _asked_at_once(definition: ast.AST) -> set[str]:
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


_JUMPS = (ast.Return, ast.Break, ast.Continue)


def _raises(body: list[ast.stmt]) -> bool:
    """The branch ends in an exception or leaves the program: nobody trains that way."""
    return any(isinstance(statement, ast.Raise) for statement in body) or _leaves(body)


def _leaves(body: Iterable[ast.AST]) -> bool:
    """One of these statements leaves the program."""
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            function = statement.value.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            if name in ("exit", "quit", "_exit", "abort"):
                return True
    return False


def _calls_by_name(line: Line) -> bool:
    """`setup(...)` for itself: whatever it does, it is called to do it."""
    node = line.node
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    function = node.value.func
    return isinstance(function, ast.Name) and function.id != "print"


def _spread(names: set[str], words: dict[str, set[str]]) -> None:
    """Adds the functions that use one of the names, until there are no more."""
    grown = True
    while grown:
        before = len(names)
        names.update([name for name, found in words.items() if not found.isdisjoint(names)])
        grown = len(names) > before


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


def _is_part(node: ast.expr, imported: set[str]) -> bool:
    """Of what was imported from PyTorch's schedules: `lr_scheduler.StepLR`, `StepLR`."""
    while isinstance(node, ast.Attribute):
        if SCHEDULES.endswith(f"optim.{node.attr}"):
            return True
        node = node.value
    return isinstance(node, ast.Name) and node.id in imported


def _summands(node: ast.AST) -> Iterator[str]:
    """`loss` of `loss`, `loss * n` or `loss / n`."""
    while isinstance(node, ast.BinOp):
        node = node.left
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield last_name(node)


def _last_names(node: ast.AST) -> Iterator[str]:
    """Of each object that an expression may give: `(decay if p.dim() > 1 else rest)`."""
    if isinstance(node, ast.IfExp):
        yield from (*_last_names(node.body), *_last_names(node.orelse))
    elif isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from _last_names(part)
    else:
        yield last_name(node)


def _may_act(called: str) -> bool:
    """Whether a function's name says that it steps, has to do with gradients, or changes a tensor
    in place."""
    in_place = called.endswith("_") and not called.startswith("_")
    return in_place or "step" in called or "grad" in called


def _next_loops(line: Line) -> Iterator[Line]:
    """The loops inside a line that lie in no other loop there."""
    for inner in line.inside:
        if isinstance(inner.node, LOOPS):
            yield inner
        elif not isinstance(inner.node, FUNCTIONS):
            yield from _next_loops(inner)


def _feeds(line: Line) -> bool:
    """A loop inside it credits and leaves the step to what comes after."""
    return any(inner.credits and not inner.spends for inner in _next_loops(line))


def _outside_loops(line: Line) -> Iterator[Line]:
    """What lies inside a line, but in no loop or function there."""
    for inner in line.inside:
        if not isinstance(inner.node, LOOPS_AND_FUNCTIONS):
            yield inner
            yield from _outside_loops(inner)


def _goes_over_tasks(loop: ast.AST) -> bool:
    """`for criterion in criteria:` with `criterion(...)` in it, or `for name in loaders:` with
    `next(loaders[name])`."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    names = _names_in(loop.target)
    calls = (node for part in loop.body for node in ast.walk(part) if isinstance(node, ast.Call))
    return any(not names.isdisjoint(_asked(call)) for call in calls)


def _asked(call: ast.Call) -> set[str]:
    """The variables that are called, or that are asked for what comes next."""
    match call:
        case ast.Call(func=ast.Name(id="next"), args=[given, *_]):
            return _names_in(given)
        case ast.Call(func=ast.Attribute(attr="next" | "__next__", value=of)):
            return _names_in(of)
        case ast.Call(func=ast.Name(id=name)):
            return {name}
    return set()


def _names_in(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _counts(node: ast.BinOp) -> bool:
    """A remainder of something that may count; `i + 1 % n`, and a text with `%s`, does not."""
    return type(node.op) is ast.Mod and type(node.left) is not ast.Constant


def counter_name(node: ast.AST) -> str:
    """`step` in `step + 1`."""
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        node = node.left
    return last_name(node)


def _targets(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _targets(element)
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value)
    else:
        yield target


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
        for part in _targets(target):
            if isinstance(part, ast.Attribute):
                yield part.attr


def loop_kind(facts: Facts, node: ast.AST) -> str:
    """Whether a loop trains batch by batch, goes around such loops, or does neither."""
    if id(node) not in facts.loud:
        return "quiet"
    return "batches" if node in facts.training else "outer"
