"""Running totals, and lists, that hold on to the graphs of losses whose backward is done.

Each backward leaves a mark on the last few nodes of its loss. A total in one of the user's
variables that leads to the marks of several steps keeps all of them alive; so does a list.
"""

import dis
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from gradkeeper.model import Site
from gradkeeper.source_line import Sites
from gradkeeper.watcher.loops import find_loops
from gradkeeper.watcher.loss_graph import TRANSPARENT
from gradkeeper.watcher.search import variables_of

MARK = "gradkeeper.spent"
"""Under this key of a node's metadata lies when its backward ran: after how many steps."""
ARITHMETIC = frozenset({"AddBackward0", "MulBackward0", "DivBackward0", "SubBackward0"})
MOST_NODES = 512
MOST_MARKED = 16
MOST_FRAMES = 4
MOST_ELEMENTS = 8
"""Of a list, the last ones, are looked at."""
SEVERAL = 3
"""Steps whose graphs a total holds, to be more than the batches of a window or a last loss."""
STORES = frozenset({"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_ATTR", "STORE_DEREF"})


class Total(NamedTuple):
    """A variable that keeps graphs: where it grows, and of how many steps."""

    site: Site
    name: str
    steps: int


class KeptGraphs:
    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self.steps = 0
        """Steps so far, as far as they are told one by one."""
        self._told: set[tuple[Site, str]] = set()

    def mark(self, loss: torch.Tensor) -> None:
        """Its backward has run, and has freed what the graph had saved."""
        for node in _near(loss.grad_fn, MOST_MARKED):
            node.metadata[MARK] = self.steps

    def look(self, frame: FrameType | None) -> Iterator[Total]:
        """The totals in the variables of the functions that run, each told once."""
        looked = 0
        while frame is not None and looked < MOST_FRAMES:
            if self._sites.is_user(frame.f_code):
                looked += 1
                yield from self._among(frame)
            frame = frame.f_back

    def _among(self, frame: FrameType) -> Iterator[Total]:
        held = variables_of(frame)
        own = getattr(held.get("self"), "__dict__", None)
        attributes = dict(own) if type(own) is dict else {}
        for name, value in (*held.items(), *attributes.items()):
            if len(_steps_held(value)) < SEVERAL:
                continue
            site = self._grows_at(frame, name, listed=type(value) is list)
            if site is not None and (site, name) not in self._told:
                self._told.add((site, name))
                yield Total(site, name, len(_steps_held(value)))

    def _grows_at(self, frame: FrameType, name: str, *, listed: bool) -> Site | None:
        """The line inside a loop that adds to a variable; None if there is no such line there."""
        place = _append(frame.f_code, name) if listed else _addition(frame.f_code, name)
        if place is None:
            return None
        here = self._sites.of(frame)
        return Site(here.file, place[0], place[1] + 1, here.function)


def _steps_held(value: object) -> set[int]:
    """The steps whose losses a total leads to, or a list holds."""
    if type(value) is list:
        near = [
            _steps_held(tensor) for tensor in value[-MOST_ELEMENTS:] if type(tensor) is torch.Tensor
        ]
        return set().union(*near)
    if type(value) is not torch.Tensor or value.grad_fn is None:
        return set()
    marks = (node.metadata.get(MARK) for node in _near(value.grad_fn, MOST_NODES))
    return {mark for mark in marks if mark is not None}


def _near(node: Any, most: int) -> Iterator[Any]:
    """A node and those that lie behind it by sums and products alone."""
    waiting, seen = [node], {node}
    while waiting and len(seen) <= most:
        near = waiting.pop(0)
        if near is None:
            continue
        yield near
        kind = type(near).__name__
        if kind in ARITHMETIC or kind in TRANSPARENT:
            new = [branch for branch, _ in near.next_functions if branch not in seen]
            seen.update(new)
            waiting.extend(new)


def _addition(code: CodeType, name: str) -> tuple[int, int] | None:
    """Line and column of what sets a variable to a sum, inside a loop or in a function of its own.

    Python adds by BINARY_OP, `+` or `+=`.
    """
    loops = find_loops(code)
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in STORES and instruction.argval == name and before is not None:
            inside = (
                any(loop.holds(instruction.offset) for loop in loops)
                or instruction.opname == "STORE_ATTR"
            )
            if inside and before.opname == "BINARY_OP" and before.argrepr in ("+", "+="):
                positions = instruction.positions
                if positions is not None and positions.lineno is not None:
                    return positions.lineno, positions.col_offset or 0
        if instruction.opname not in ("CACHE", "SWAP", "COPY", "LOAD_FAST", "LOAD_NAME"):
            before = instruction
    return None


def _append(code: CodeType, name: str) -> tuple[int, int] | None:
    """Line and column of what puts something into a list, inside a loop or in a function of its
    own."""
    loops = find_loops(code)
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(code):
        if instruction.argval == "append" and before is not None and before.argval == name:
            inside = any(loop.holds(instruction.offset) for loop in loops)
            positions = before.positions
            if (inside or before.opname == "LOAD_ATTR") and positions and positions.lineno:
                return positions.lineno, positions.col_offset or 0
        if instruction.opname != "CACHE":
            before = instruction
    return None
