"""What an expression can stand for in a rehearsal.

Numbers, strings, None, lists, tuples and dicts are Python's own; the rest is here. `Opaque` is
everything that is not known, tensors included: of those, what matters is where they come from.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from gradkeeper.lint.nodes import Node

Value = Any
Flow = frozenset[Node]
NOWHERE: Flow = frozenset()


LONGEST_NAME = 200
"""Of a value that is spoken of by the expression it came from."""
DISTRIBUTION = "distribution"
"""The role of what torch.distributions makes."""


def shortened(name: str) -> str:
    """A name as it may go into others; two that differ stay different, however long they are."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}... {crc32(name.encode()):08x}"


@dataclass(eq=False, slots=True)
class Opaque:
    """Something unknown. `flow`: the modules whose parameters it was computed from.

    `maybe`: it may also depend on parameters that the source doesn't show.
    """

    name: str
    flow: Flow = NOWHERE
    maybe: bool = False
    multiplier: float | None = 1.0
    reduction: str | None = None
    ignoring: bool = False
    autocast: str | None = None
    scaler: "Scaler | None" = None
    leaf: Node | None = None
    """It is itself a tensor that collects gradients."""
    length: int | None = None
    attrs: dict[str, Value] | None = None
    node: Node | None = None
    """It turned out to be a module."""
    role: Value = None
    """It turned out to be an optimizer, a scaler, a scheduler."""
    hints: tuple[Node, ...] = ()
    """Modules that it was made from."""
    disk: bool = False
    data: bool = False
    """Input, or made of input: no parameter hides in it."""
    inner: Value = None
    """What iterating over it gives, where that is known."""
    gradient: bool = False
    """It was read from a parameter's .grad."""
    given: "Optim | None" = None
    """The optimizer that was handed to the call it came from."""

    def blank(self) -> bool:
        """Nothing at all is known of it: one such value is as good as another."""
        return not (
            self.flow
            or self.maybe
            or self.node
            or self.role
            or self.leaf
            or self.hints
            or self.given
        ) and not (self.disk or self.length or self.attrs)


@dataclass(eq=False, slots=True)
class Module:
    node: Node
    cls: "Class | None" = None
    arguments: tuple[list[Value], dict[str, Value]] | None = None
    attrs: dict[str, Value] = field(default_factory=dict)
    ready: bool = False
    """Its __init__ has been rehearsed."""
    items: list[Value] | dict[str, Value] | None = None
    accelerator: "Accelerator | None" = None


@dataclass(eq=False, slots=True)
class Params:
    """Parameters of some modules. A one-shot iterator is empty after its first use."""

    nodes: tuple[Node, ...]
    name: str
    oneshot: bool = False
    used: bool = False
    named: bool = False
    whose: "Optim | None" = None


@dataclass(eq=False, slots=True)
class Param:
    """Stands for each parameter of a set in turn."""

    nodes: tuple[Node, ...]
    guarded: bool = False


@dataclass(eq=False, slots=True)
class Grad:
    param: Param


@dataclass(eq=False, slots=True)
class StateDict:
    nodes: tuple[Node, ...] = ()
    optimizers: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Optim:
    name: str
    nodes: list[Node]
    known: bool = True
    """Its parameters were seen. Else it is taken to own what nobody else does."""
    adopted: set[str] = field(default_factory=set)
    accelerator: "Accelerator | None" = None
    kind: str = ""
    groups: list[tuple[Node, ...]] = field(default_factory=list)
    """What each of its parameter groups was given, where there are several."""
    parted: dict[int, tuple[Node, ...]] = field(default_factory=dict)
    """Groups that divide the same modules, once they were asked for one by one."""
    before: list[Value] = field(default_factory=list)
    """Hooks that its step runs first."""
    after: list[Value] = field(default_factory=list)
    """Hooks that its step runs last."""


@dataclass(eq=False, slots=True)
class Sched:
    name: str
    optim: Optim | None
    metric: bool = False
    accelerator: "Accelerator | None" = None


@dataclass(eq=False, slots=True)
class Scaler:
    name: str


@dataclass(eq=False, slots=True)
class Accelerator:
    steps: int | None = 1
    count: int = 0
    sync: bool = True
    short: bool = False
    """The window that closes now is not full: a loader's last batch has come."""


@dataclass(eq=False, slots=True)
class LossFn:
    reduction: str | None
    ignoring: bool = False


@dataclass(eq=False, slots=True)
class Loader:
    """Hands out batches; `length` where the source tells it."""

    name: str
    length: int | None = None
    element: Value = None


@dataclass(eq=False, slots=True)
class Wrapped:
    """enumerate, zip and the like: several iterables in step."""

    kind: str
    of: list[Value]
    start: Value = 0


class Shortened(int):
    """The rounds that are rehearsed of something longer; what is made of that size is whole."""

    whole: int

    def __new__(cls, rounds: int, whole: int) -> "Shortened":
        made = super().__new__(cls, rounds)
        made.whole = whole
        return made


@dataclass(eq=False, slots=True)
class External:
    """A name out of another package, dotted."""

    name: str


@dataclass(eq=False, slots=True)
class Function:
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: "Frame"
    defaults: list[Value] = field(default_factory=list)
    kw_defaults: dict[str, Value] = field(default_factory=dict)
    name: str = "<lambda>"
    bound: Value = None
    is_bound: bool = False
    home: "Class | None" = None


@dataclass(eq=False, slots=True)
class Class:
    node: ast.ClassDef
    frame: "Frame"
    bases: list[Value]
    members: dict[str, Value] = field(default_factory=dict)
    detached: bool | None = None
    """Whether its forward gives detached tensors, once someone has looked."""


@dataclass(eq=False, slots=True)
class Instance:
    cls: Class
    attrs: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Method:
    """A method of one of our own values, not called yet."""

    of: Value
    name: str


@dataclass(eq=False, slots=True)
class Partial:
    function: Value
    args: list[Value]
    kwargs: dict[str, Value]


@dataclass(eq=False, slots=True)
class Context:
    """A context manager: what to enter and leave is told by `kind`."""

    kind: str
    value: Value = None


@dataclass(eq=False, slots=True)
class Frame:
    """The variables of a function call or a module, and what lies around them."""

    names: dict[str, Value]
    around: "Frame | None"
    module: "Frame | None"
    function: str = "<module>"
    survey: Any = None
    file: str = ""
    outer: dict[str, "Frame"] = field(default_factory=dict)
    """Names declared global or nonlocal."""
    home: Class | None = None
    me: Value = None
    skipped: list[ast.stmt] = field(default_factory=list)
    yielded: list[Value] | None = None
    around_body: "Callable[[Value], None] | None" = None
    """What the first yield of a context manager runs."""

    def look(self, name: str) -> Value:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.around
        return MISSING


class _Missing:
    pass


MISSING = _Missing()


@dataclass(slots=True)
class Return:
    value: Value


class Jump:
    pass


BREAK = Jump()
CONTINUE = Jump()
Signal = Jump | Return | None


def base(name: str) -> str:
    """The last part of a dotted name."""
    return name.rpartition(".")[2]
