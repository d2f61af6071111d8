"""What all windows of one engine share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradkeeper.engine.journal import Journal
from gradkeeper.engine.leftovers import Leftovers

if TYPE_CHECKING:
    from gradkeeper.engine.ranks import Ranks
    from gradkeeper.engine.window import Window


def _nothing() -> None:
    return


@dataclass(slots=True, eq=False)
class Shared:
    journal: Journal
    ranks: "Ranks"
    leftovers: Leftovers
    raise_nonfinite: bool
    closed: "Callable[[Window], None]"
    """Told of each window that was closed without an exception."""
    boundary: Callable[[], None] = _nothing
    """To be called between two micro-batches if `asked` is set."""
    asked: bool = False
    """Whether somebody waits for the next boundary: a save, a signal, a resumed run."""
    open: "Window | None" = None
    aside: bool = False
    """Whether the program is in a block of engine.aside(), where nothing is trained."""
    faulted: bool = False
    """Whether an exception left the last window's block."""
    told_of_coupling: bool = False
