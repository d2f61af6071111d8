"""Where a run is: the variables of calls and modules, and the loops that it is in."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from gradkeeper.lint.interpreter.objects import Class, Namespace
from gradkeeper.lint.interpreter.values import Condition, Value
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


class Import(NamedTuple):
    """`from module import name` in a file, of the project's own modules."""

    file: str
    module: str
    level: int
    name: str


class Frame:
    """The variables of a call or of a module, and what lies around them."""

    __slots__ = (
        "around",
        "file",
        "function",
        "home",
        "imports",
        "module",
        "names",
        "of_class",
        "outer",
        "receiver",
        "returns",
        "stars",
        "unread",
        "waiting",
        "yields",
    )

    def __init__(
        self,
        names: dict[str, Value],
        around: Frame | None,
        module: Frame | None,
        function: str,
        file: str,
        home: Class | None = None,
        receiver: Value | None = None,
    ) -> None:
        self.names = names
        self.around = around
        self.module = module
        self.function = function
        self.file = file
        self.home = home
        self.receiver = receiver
        self.imports: dict[str, Import] = {}
        """Of a module: what it imports from others of the project, until somebody asks for it."""
        self.stars = False
        """Of a module: it has names from another one that is not seen, by `import *`."""
        self.unread: OwnModule | None = None
        """Of a module that is run line by line: what defines its names."""
        self.waiting: dict[str, ast.stmt] = {}
        """Of a module: definitions that nobody has asked for yet."""
        self.outer: dict[str, Frame] = {}
        """Names declared global or nonlocal, with the frame they live in."""
        self.returns: list[tuple[Condition, Value]] = []
        """What quiet branches would have returned."""
        self.of_class = False
        """The body of a class, whose names its methods don't see."""
        self.yields: Any = None
        """What a `yield` does with its value."""

    def find(self, name: str) -> Value | None:
        frame: Frame | None = self
        while frame is not None:
            found = frame.names.get(name)
            if found is not None:
                return found
            frame = frame.around
            while frame is not None and frame.of_class:
                frame = frame.around
        return None

    def owner_of(self, name: str) -> dict[str, Value]:
        declared = self.outer.get(name)
        return declared.names if declared is not None else self.names


@dataclass(slots=True, eq=False)
class Loop:
    """A loop that is being run."""

    node: ast.AST
    kind: Literal["quiet", "outer", "batches"]
    rounds: int
    exact: bool
    """As many rounds as the program itself would run."""
    ends_alike: bool = False
    """Fewer, but a window that is open at its end is as full as it would be."""
    ended: bool = False
    """What it goes over came to its own end, and no loop on the way was cut short."""
    given_up: bool = False
    """Fewer, because all of them would cost too much."""
    total: int | None = None
    """How many rounds the program itself would run, where it says so."""
    told: bool = False
    """The program itself is told when there is no element left."""
    index: int = 0
    site: Site | None = None
    iterable: Value | None = None
    begun: int = 0
    """The serial number of what was made last before it began."""
    round_begun: int = 0
    """The same, of the round that it is in."""

    def next_round(self, serial: int) -> None:
        self.index += 1
        self.round_begun = serial

    def goes_over(self, value: Value) -> bool:
        """Whether its elements are those of this value, wrapped or not."""
        iterable = self.iterable
        while iterable is not None:
            if iterable is value:
                return True
            iterable = getattr(iterable, "of", None)
            if isinstance(iterable, tuple):
                return any(value is part or getattr(part, "of", None) is value for part in iterable)
        return False


class Outline:
    """Which lines of a module have to do with which of its names."""

    def __init__(self, tree: ast.Module) -> None:
        self.lines: dict[str, list[Definition]] = {}
        self.stars: list[Definition] = []
        """`from module import *`: nobody can tell which names that brings."""
        lines = [Definition(statement) for statement in tree.body]
        variables = {name for line in lines for name in line.variables}
        for line in lines:
            if line.brings_all:
                self.stars.append(line)
            # What is done to a variable belongs to it; functions and modules stay what they are.
            line.names.update((name, None) for name in line.touched if name in variables)
            for name in line.names:
                self.lines.setdefault(name, []).append(line)


class Definition:
    """A line of a module, with the names that it gives a value, or changes."""

    __slots__ = ("body", "brings_all", "names", "touched", "variables")

    def __init__(self, statement: ast.stmt) -> None:
        self.body = [statement]
        self.brings_all = False
        self.names: dict[str, None] = {}
        self.variables: set[str] = set()
        self.touched: dict[str, None] = {}
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.names[statement.name] = None
            for decorator in statement.decorator_list:
                self._note_root(decorator)
            return
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.names[node.id] = None
                self.variables.add(node.id)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    self.names[alias.asname or alias.name.partition(".")[0]] = None
                    self.brings_all = self.brings_all or alias.name == "*"
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.names[node.name] = None
            elif isinstance(node, ast.Call):
                self._note_root(node.func)
            elif isinstance(node, (ast.Attribute, ast.Subscript)):
                if isinstance(node.ctx, ast.Store):
                    self._note_root(node)

    def _note_root(self, node: ast.expr) -> None:
        """`parser` in `parser.add_argument(...)`, `TABLE` in `@TABLE.register`."""
        asked = node
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Name) and node is not asked:
            self.touched[node.id] = None


class OwnModule(Namespace):
    """A module of the project: its lines are run when one of their names is asked for."""

    __slots__ = ("_done", "_frame", "_outline")

    def __init__(self, m: Machine, name: str, frame: Frame, outline: Outline) -> None:
        super().__init__(name, frame.names, lambda wanted: self.define(m, wanted))
        self._frame = frame
        self._outline = outline
        self._done: set[int] = set()
        frame.unread = self

    def define(self, m: Machine, name: str) -> Value | None:
        """What a name stands for, after the lines that have to do with it."""
        self._run(m, self._outline.lines.get(name, ()))
        found = self._known(m, name)
        if found is None and name not in self._outline.lines:
            self._run(m, self._outline.stars)
            found = self._known(m, name) or m.submodule(name, self._frame.file)
        return found

    def all_names(self, m: Machine) -> Frame:
        """The frame, in which every line was run."""
        for lines in (*self._outline.lines.values(), self._outline.stars):
            self._run(m, lines)
        return self._frame

    def _known(self, m: Machine, name: str) -> Value | None:
        return self._frame.names.get(name) or m.import_now(self._frame, name)

    def _run(self, m: Machine, lines: Iterable[Definition]) -> None:
        for line in lines:
            if id(line) in self._done:
                continue
            self._done.add(id(line))
            with m.libraries.beforehand(m):
                m.run_in(self._frame, line.body)
            for name in line.names:
                self._run(m, self._outline.lines[name])

    def acts(self, m: Machine) -> bool:
        """It holds what a program chose it for: both sides of such a choice are worth a try."""
        return True

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        self.define(m, name)
        Namespace.set_attribute(self, m, name, value)


class Importer(Protocol):
    def module(self, m: Machine, name: str, level: int, file: str) -> OwnModule | None:
        """A module of the program itself, the same one throughout a run."""
