"""What a rank says when the roll is called: where it is, how it fares, and what it counted."""

from enum import IntEnum
from typing import NamedTuple


class Place(IntEnum):
    """Where in the loop a rank is when it speaks."""

    UNIT = 1
    """The run's first backward: which weight shall be the unit of all others?"""
    EPOCH = 2
    """Between windows: who has more micro-batches?"""
    READ = 3
    """Before the next micro-batch, where ranks read in step."""
    FORWARD = 4
    """Before a forward in which all ranks take part."""
    CLOSE = 5
    """The window's end."""
    WIDE = 6
    """A norm overflowed, and is measured again."""
    BREAK = 7
    """It reads no more of this window, though there would be more."""
    SAVE = 8
    """Where somebody called save(), outside of all loops."""


class State(IntEnum):
    FINE = 0
    TORN = 1
    """A backward failed half-way, and the exception was caught inside the block."""
    INTERRUPTED = 2
    """It learnt in mid-window that another rank had failed."""
    FAILED = 3
    """An exception left the block before the ranks had exchanged anything."""
    FAILED_LATE = 4
    """The same after they had."""


class Word(NamedTuple):
    """Numbers only: they fit into one tensor. Zero is what nobody needs to know."""

    place: float
    state: float = State.FINE
    window: float = 0
    """How many windows it has opened."""
    handed: float = 0
    """Micro-batches of this window that it was handed."""
    more: float = 0
    """Whether its loader has another one."""
    remaining: float = 0
    """How many more; -1 where the loader has no length."""
    weight: float = 0
    """The sum of its weights; at UNIT, its first one."""
    counted: float = 0
    credits: float = 0
    loss: float = 0
    norm: float = 0
    """Of its gradients, or of its part of them."""
    unsynced: float = 0
    """It holds gradients that the others have not seen."""
    stop: float = 0
    """It wants all ranks to stop."""
    save: float = 0
    """It wants all ranks to save."""
    line: float = 0
