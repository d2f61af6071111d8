"""Where a value comes from: its sources, and the modes in which it is computed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradkeeper.lint.libraries.factors import Factor
from gradkeeper.lint.libraries.leaves import Leaf
from gradkeeper.lint.libraries.recording import Note

if TYPE_CHECKING:
    from gradkeeper.lint.libraries.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Fetched:
    """A source: data that was had at this time of the run."""

    serial: int


@dataclass(frozen=True, slots=True)
class Made:
    """A source: data that the program made before it began to train, or rows of it."""

    of: Hashable


@dataclass(frozen=True, slots=True)
class Weights:
    """A source: the numbers of a parameter, without its history."""

    of: Leaf


@dataclass(frozen=True, slots=True, eq=False)
class Differentiated:
    """A source: backward() was called on the value before, with this note on the tape."""

    by: Note


@dataclass(slots=True, eq=False)
class Pass:
    """A source: a network was called once. PyTorch frees what it kept for it at the backward."""

    freed: bool = False
    live: set[Leaf] = field(default_factory=set)
    frozen: set[Leaf] = field(default_factory=set)
    """Its parameters, by whether they wanted a gradient then."""

    def through(self, leaves: Iterable[Leaf]) -> None:
        for leaf in leaves:
            (self.live if leaf.requires_grad else self.frozen).add(leaf)


OPEN = "parameters that are not seen"
"""A source: the value may depend on parameters that the source doesn't show."""
OWN_LOSS = "a network's own loss"
"""A source: a method of a network made it of data, and knows nothing of windows."""
DISK = "a file"
"""A source: the value was read from a checkpoint."""
GRADIENT = "a gradient"
"""A source: the value was computed from somebody's .grad."""


class Modes:
    """What is switched on around the present line."""

    def __init__(self) -> None:
        self.grad = True
        self.autocast: str | None = None
        self.unsynced = False
        """DDP exchanges nothing now."""
        self.unsynced_forward: bool | None = None
        """What it was at the last forward: that is when DDP decides for the backward."""
        self.unsynced_shards = False
        """FSDP2 exchanges nothing now; it asks at the backward."""
        self.speaks_of_sync = False
        """Some backward ran without exchange between ranks: the others have one."""
        self.passing: Pass | None = None
        """The call of a network that is being run."""
        self.weights: dict[Hashable, Factor] = {}
        """What unknown values were multiplied by: any of them may be a loss."""
        self.grown: dict[Hashable, Tensor] = {}
        """What unknown values were made into in place, by `requires_grad_()`."""
        self.differentiated: dict[Hashable, Differentiated] = {}
        """Unknown values on which backward() was called."""
