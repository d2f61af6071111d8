"""Which functions credit and spend, which loops train, what counts their micro-batches.

Answered from the lines of all files of a program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.lines import Line, top_of
from gradkeeper.lint.interpreter.relevance import Relevance
from gradkeeper.lint.interpreter.syntax import (
    DEFINITIONS,
    FUNCTIONS,
    LOOPS,
    LOOPS_AND_FUNCTIONS,
    arguments_of,
    calls_in,
    goes_over_tasks,
    lambda_name,
    last_name,
    plainly_in,
    targets,
)
from gradkeeper.lint.interpreter.vocabulary import (
    BUILDS,
    CREDITS,
    ENTRIES,
    GATHERS,
    LOUD,
    LOUD_AS_SUCH,
    NO_WORDS,
    OF_MADE,
    OF_MODULES,
    OF_NETWORKS,
    OF_OPTIMIZERS,
    OF_SCALERS,
    OF_SCHEDULES,
    OF_STEPPED,
    OF_WEIGHTS,
    OPTIMIZERS,
    SCHEDULES,
    SPENDS,
    WHEN_CALLED,
    WINDOWS,
)

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.facts import Facts

CALLED = "__call__"
MOST_HANDED_ON = 4
"""Names that a function goes by, one after the other."""


@dataclass(frozen=True, slots=True)
class TrainingFunction:
    """A function that credits or spends, by itself or by what it calls."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    file: str
    home: ast.ClassDef | None
    refers: set[str]
    """The names in it, as far as they may stand for functions."""
    by_itself: bool


class Survey:
    """Answers all questions from the lines of a program."""

    def __init__(self, facts: Facts, files: list[Line]) -> None:
        self.facts = facts
        self.files = files
        self.lines = [line for file in files for line in file.walk()]
        self.functions: dict[str, list[Line]] = {}
        for line in self.lines:
            if isinstance(line.node, DEFINITIONS):
                self.functions.setdefault(line.node.name, []).append(line)
        self.lambdas = [function for line in self.lines for function in line.lambdas]
        self.methods = {
            id(inner)
            for line in self.lines
            if isinstance(line.node, ast.ClassDef)
            for inner in line.inside
        }
        self.members = {
            name
            for name, lines in self.functions.items()
            if any(id(line) in self.methods for line in lines)
        }.union(*(line.sets for line in self.lines))
        """What may be asked of an object: methods, and whatever else is assigned by such a name."""
        self.imported = {
            part
            for nodes in facts.imports.values()
            for node in nodes
            for alias in node.names
            for part in (alias.asname or alias.name).split(".")
        }
        self.own = {
            part for file, _ in facts.read_files() for part in PurePath(file).with_suffix("").parts
        }
        """The packages and modules of the project."""
        self.foreign = {
            alias.asname or alias.name
            for nodes in facts.imports.values()
            for node in nodes
            if isinstance(node, ast.Import)
            for alias in node.names
            if top_of(alias.name) not in self.own
        }
        self.calls = {
            name: method
            for name, lines in self.functions.items()
            for line in lines
            for method in line.inside
            if isinstance(line.node, ast.ClassDef) and getattr(method.node, "name", "") == CALLED
        }
        """By class: what is done when its objects are called."""
        self.objects = self._objects_to_call()

    def run(self) -> None:
        uses = self.facts.uses
        plain = {
            name
            for name, lines in self.functions.items()
            if any(id(line) not in self.methods for line in lines)
        } | self.objects.keys()
        others_step = self._makes_optimizers()
        counters = {word for line in self.lines for word in line.assigns & WHEN_CALLED}
        bodies = [body for function in self.lambdas for body in function.inside]
        asked = self.functions.keys() - plain - self._handed_over()
        self._leave_out_local_names(plain - self.objects.keys())
        for line in [*self.lines, *bodies]:
            line.refers |= line.names - asked
            line.refers.update(word for of, word in line.of_modules if of not in self.foreign)
            for of, word in line.asks:
                if word in counters and word not in line.calls:
                    continue  # `self.step % 100` is a number
                if word == "step" and not others_step and uses.get(of, NO_WORDS) & OF_OPTIMIZERS:
                    continue  # an optimizer's, and none of the functions that are called so
                if not of:
                    if word in plain:
                        line.refers.add(word)
                elif self._may_be_ours(of, word):
                    line.refers.add(word)
                if word == "update" and uses.get(of, NO_WORDS) & OF_SCALERS:
                    line.acts.add("GradScaler")  # as loud as the rest of what a scaler does
            if not line.words.isdisjoint(LOUD):
                line.acts |= line.words & LOUD_AS_SUCH | line.calls & WHEN_CALLED
            for of in line.steps_of:
                if uses.get(of, NO_WORDS) & OF_OPTIMIZERS:
                    line.acts.add("step")
        for function in self.lambdas:
            assert isinstance(function.node, ast.Lambda)
            self.functions[lambda_name(function.node)] = [function]
        self._note_makers()
        self._note_ticks()
        self.facts.bare = {
            id(line.node.value) for line in self.lines if isinstance(line.node, ast.Expr)
        }
        self.facts.stepping = [
            line.node
            for line in self.lines
            if "step" in line.calls
            and any(uses.get(of, NO_WORDS) & OF_STEPPED for of in line.steps_of)
        ]
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
        Relevance(self.facts, self.files, self.lines, self.functions).find()

    def _leave_out_local_names(self, functions: set[str]) -> None:
        """An argument that nobody hands a function to, or what is imported from elsewhere, is no
        function of the program, though one may have the same name."""
        local: dict[int, set[str]] = {}
        for line in self.lines:
            if isinstance(line.node, FUNCTIONS):
                names = self._brought(line).union(arguments_of(line.node))
                for inner in line.walk() if names & functions else ():
                    if inner is not line and inner.names & names:
                        local.setdefault(id(inner), set()).update(inner.names & names & functions)
        if not local:
            return
        handed = {
            last_name(argument)
            for line in self.lines
            for call in calls_in(line.node)
            for argument in (*call.args, *(keyword.value for keyword in call.keywords))
            if isinstance(argument, ast.Name) and argument.id not in local.get(id(line), ())
        }
        for line in self.lines:
            line.names -= local.get(id(line), set()) - handed

    def _brought(self, function: Line) -> set[str]:
        return {
            name
            for line in function.own()
            for name, package in line.brings.items()
            if package not in self.own
        }

    def _handed_over(self) -> set[str]:
        """What is taken from an object as it is, so that a variable may be called as its method."""
        found: set[str] = set()
        for line in self.lines:
            values = [line.node.value] if isinstance(line.node, ast.Assign) else []
            for call in calls_in(line.node):
                values += [*call.args, *(keyword.value for keyword in call.keywords)]
            found.update(value.attr for value in values if isinstance(value, ast.Attribute))
        return found

    def _makes_optimizers(self) -> bool:
        """What the program calls `step` may be that of its own optimizers: a class that has one is
        made of PyTorch's, or is zeroed somewhere."""
        if "zero_grad" in self.functions:
            return True
        imported = {
            name.asname or name.name
            for line in self.lines
            if isinstance(line.node, ast.ImportFrom) and OPTIMIZERS in f"{line.node.module}."
            for name in line.node.names
        }
        bases = (base for line in self.functions.get("step", ()) for base in self._bases_of(line))
        return any(not imported.isdisjoint(words) or "optim" in words for words in bases)

    def _bases_of(self, method: Line) -> Iterator[set[str]]:
        """The words of each base of the class that a method lies in."""
        for line in self.lines:
            if isinstance(line.node, ast.ClassDef) and method in line.inside:
                for base in line.node.bases:
                    yield {last_name(part) for part in ast.walk(base)}

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
        """Where schedules move on, PyTorch's own or what is used as one: that is no step, though
        it is called so."""
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
        schedules |= {
            name
            for name, found in self.facts.uses.items()
            if found & OF_SCHEDULES and not found & OF_STEPPED
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
        stand for, as `run` does after `run = partial(train_step, model)`, or an object of a class
        that can be called."""
        called = {name for line in self.lines for name in line.calls}
        found: dict[str, set[str]] = {}
        new = functions & self.functions.keys()
        if CALLED in new:
            loud = {name for name, call in self.calls.items() if self._is_loud(call, functions)}
            objects = {name for name, classes in self.objects.items() if classes & loud}
            found.update({name: {CALLED} for name in objects})
            new = new | objects
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
        return {name: _reached(name, found) for name in found if name in called}

    def _may_be_ours(self, of: str, word: str) -> bool:
        """Whether `of.word` may be a function of the program; `model.train` is the network's, where
        what is called so is no method and `model` no module that was imported."""
        if word not in self.functions:
            return False
        if word not in OF_NETWORKS:
            return True
        if self.facts.uses.get(of, NO_WORDS) & OF_MODULES:
            return False
        return word in self.members or of in self.imported

    def _is_loud(self, function: Line, names: set[str]) -> bool:
        return any(
            not inner.acts.isdisjoint(LOUD) or not inner.refers.isdisjoint(names)
            for inner in function.own()
        )

    def _objects_to_call(self) -> dict[str, set[str]]:
        """What objects are assigned or handed to whose class has a `__call__`, by that class."""
        found: dict[str, set[str]] = {}
        for line in self.lines:
            if line.calls.isdisjoint(self.calls):
                continue
            node = line.node
            held: list[tuple[ast.expr, Iterable[str]]] = []
            if isinstance(node, ast.Assign):
                held.append((node.value, [last_name(target) for target in node.targets]))
            for call in calls_in(node):
                for place, argument in enumerate(call.args):
                    held.append((argument, self._arguments(last_name(call.func), place)))
                for keyword in call.keywords:
                    held.append((keyword.value, [keyword.arg] if keyword.arg else []))
            for value, names in held:
                made = last_name(value.func) if isinstance(value, ast.Call) else ""
                for name in names if made in self.calls else ():
                    found.setdefault(name, set()).add(made)
        return found

    def _handed_on(self, line: Line, functions: set[str]) -> Iterator[tuple[str, str]]:
        """What a line lets one of these functions be called by: variable, and function."""
        node = line.node
        if isinstance(node, FUNCTIONS):
            for decorator in node.decorator_list:
                maker = last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if maker == node.name:
                    continue  # `@hydra.main() def main(cfg)`: nobody decorates himself
                for target in self._arguments(maker, 0):
                    yield target, node.name
            return
        if isinstance(node, ast.Assign):
            for function in plainly_in(node.value, functions):
                for assigned in node.targets:
                    yield from ((last_name(part), function) for part in targets(assigned))
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            for function in plainly_in(node.iter, functions):
                yield from ((last_name(part), function) for part in targets(node.target))
        for call in calls_in(node):
            if isinstance(call.func, ast.Attribute) and call.func.attr in GATHERS:
                for argument in call.args:
                    for function in plainly_in(argument, functions):
                        yield last_name(call.func.value), function
            for place, argument in enumerate(call.args):
                for function in plainly_in(argument, functions):
                    for target in self._arguments(last_name(call.func), place):
                        yield target, function
            for keyword in call.keywords:
                for function in plainly_in(keyword.value, functions):
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
                names = arguments_of(node)
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
                if line.credits and goes_over_tasks(node):
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
        """The loops that credit outside of the loops in them, also where a function does it, or
        where the backward may have been forgotten of an optimizer that steps only there.

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
            and (
                any(
                    inner.acts & CREDITS or inner.refers & turning for inner in _outside_loops(line)
                )
                or self._steps_only_there(line)
            )
        }

    def _steps_only_there(self, line: Line) -> bool:
        """An optimizer steps outside of the loops in a loop, and another one in them."""
        uses = self.facts.uses
        own = {of for inner in _outside_loops(line) for of in _stepped(inner)}
        loops = [inner for loop in _next_loops(line) for inner in loop.own()]
        inside = {of for inner in loops for of in _stepped(inner)}
        others = {name for name, _ in own - inside}
        return bool(inside) and any(uses.get(of, NO_WORDS) & OF_OPTIMIZERS for of in others)

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
            if isinstance(line.node, ast.If) and not (line.loud or leaves):
                facts.asides.update(line.remainders)
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
                self._note_counter(line, line.own())
        for line, following in _left_early(scope):
            self._note_counter(line, following)
        for line in own:
            returns = isinstance(line.node, ast.Return)
            if line.remainders and (line.sets & names or returns):
                facts.gates.update(line.remainders)
                facts.gate_words |= line.words
                if line.sets & closing or returns:
                    facts.periods.update(line.remainders)

    def _note_counter(self, line: Line, way: Iterable[Line]) -> None:
        for inner in way:
            back = _set_back(inner) & line.words
            if back:
                self.facts.counters.add(id(line.node))
                self.facts.set_back |= back
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
                            {word for inner in own for word in inner.refers},
                            any(inner.spends_at_once or inner.acts & ENTRIES for inner in own),
                        )
                    )


def _left_early(scope: Line) -> Iterator[tuple[Line, list[Line]]]:
    """`if count < n: return False`, with the rest of its block, which is the other way."""
    for around in (scope, *scope.own()):
        for place, line in enumerate(around.inside):
            if isinstance(line.node, ast.If) and isinstance(line.node.body[-1], _JUMPS):
                yield line, around.inside[place + 1 :]


def _joined(first: dict[str, set[str]], second: dict[str, set[str]]) -> dict[str, set[str]]:
    return {name: found | first.get(name, set()) for name, found in second.items()}


_JUMPS = (ast.Return, ast.Break, ast.Continue)


def _spread(names: set[str], words: dict[str, set[str]]) -> None:
    """Adds the functions that use one of the names, until there are no more."""
    grown = True
    while grown:
        before = len(names)
        names.update([name for name, found in words.items() if not found.isdisjoint(names)])
        grown = len(names) > before


def _is_part(node: ast.expr, imported: set[str]) -> bool:
    """Of what was imported from PyTorch's schedules: `lr_scheduler.StepLR`, `StepLR`."""
    while isinstance(node, ast.Attribute):
        if SCHEDULES.endswith(f"optim.{node.attr}"):
            return True
        node = node.value
    return isinstance(node, ast.Name) and node.id in imported


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


def _stepped(line: Line) -> Iterator[tuple[str, str]]:
    """Whose `step` a line mentions: the name, and which one of several it is: `optimizers[0]`."""
    for node in ast.walk(line.node) if line.steps_of else ():
        if isinstance(node, ast.Attribute) and node.attr == "step":
            of = node.value
            told = isinstance(of, ast.Subscript) and isinstance(of.slice, ast.Constant)
            yield last_name(of), ast.unparse(of) if told else ""


def _reached(name: str, handed_on: dict[str, set[str]]) -> set[str]:
    """All that a name may stand for, by way of other names."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = handed_on.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _set_back(line: Line) -> set[str]:
    """What begins again here: a number, or a list whose length counts."""
    match line.node:
        case ast.Assign(value=ast.Constant() | ast.List(elts=[])):
            return line.sets
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="clear", value=of), args=[])):
            return {last_name(of)}
    return set()
