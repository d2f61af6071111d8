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

from gradkeeper.lint.interpreter.lines import Line, Reader, can_wait
from gradkeeper.lint.interpreter.survey import Survey, TrainingFunction
from gradkeeper.lint.interpreter.syntax import FUNCTIONS
from gradkeeper.lint.interpreter.vocabulary import BUILDS, DRIVES, LOUD


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
    asides: set[int] = field(default_factory=set)
    """Remainders in tests on which nothing loud depends, as of what is saved every so often."""
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
    set_back: set[str] = field(default_factory=set)
    """Such counters."""
    loud_names: set[str] = field(default_factory=set)
    credit_names: set[str] = field(default_factory=set)
    step_names: set[str] = field(default_factory=set)
    stepping: list[ast.AST] = field(default_factory=list)
    """The lines of the program that step an optimizer, or have a scaler do it."""
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
    _stores: dict[int, set[str]] = field(default_factory=dict)
    """By function: the attributes that it sets."""
    _inside: dict[int, set[int]] = field(default_factory=dict)
    """By loop: all that is written in it."""
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

    def trains_by_itself(self, file: str) -> bool:
        """A loop that trains stands in no function: a script, whoever imports from it."""
        loops = {id(node) for node in self.told_in.get(file, ())}
        return any(id(line.node) in loops for line in self._files[file].own())

    def can_wait(self, file: str) -> dict[str, ast.stmt]:
        """Functions and classes of a file that mean the same whenever they are defined.

        Each is the only one of its name, no decorator does anything with it, and what is asked for
        on the way was set before, for good. Most runs ask for few of them.
        """
        found = self._waiting.get(file)
        if found is None:
            found = self._waiting[file] = can_wait(self._files[file])
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

    def attributes_set_in(self, function: ast.AST) -> set[str]:
        """The attributes that a function sets, of whatever object."""
        found = self._stores.get(id(function))
        if found is None:
            found = self._stores[id(function)] = {
                part.attr
                for part in ast.walk(function)
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
            }
        return found

    def steps_outside(self, loops: Iterable[ast.AST]) -> bool:
        """Some line of the program that steps lies in none of these loops."""
        if not self.stepping:
            return False
        inside = [self._nodes_in(loop) for loop in loops]
        return any(all(id(node) not in nodes for nodes in inside) for node in self.stepping)

    def _nodes_in(self, loop: ast.AST) -> set[int]:
        found = self._inside.get(id(loop))
        if found is None:
            found = self._inside[id(loop)] = {id(node) for node in ast.walk(loop)}
        return found

    def tests_around(self, file: str, loop: ast.AST) -> list[int]:
        """The lines of the tests in whose branches a loop stands, the innermost first."""
        line: int = getattr(loop, "lineno", 0)
        tests = (test.node for test in self._files[file].walk() if isinstance(test.node, ast.If))
        return sorted(
            (test.lineno for test in tests if test.lineno < line <= (test.end_lineno or 0)),
            reverse=True,
        )

    def is_loud(self, node: ast.AST) -> bool:
        return id(node) in self.loud

    def add(self, files: Iterable[tuple[ast.Module, str]]) -> None:
        """Reads files of the program."""
        for tree, file in files:
            reader = Reader(self)
            self._files[file] = reader.read(tree)
            self.imports[file] = reader.imports

    def speak_of_training(self) -> bool:
        """Some line that was read has to do with gradients, or sets a framework going."""
        words = LOUD | DRIVES | BUILDS
        return any(line.words & words for file in self._files.values() for line in file.walk())

    def survey(self) -> None:
        """Answers all questions, in the light of all files that were read."""
        Survey(self, list(self._files.values())).run()


_NOTHING: set[str] = set()


def loop_kind(facts: Facts, node: ast.AST) -> str:
    """Whether a loop trains batch by batch, goes around such loops, or does neither."""
    if id(node) not in facts.loud:
        return "quiet"
    return "batches" if node in facts.training else "outer"
