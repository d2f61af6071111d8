"""What all windows of one engine share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradkeeper.engine.journal import Journal

if TYPE_CHECKING:
    from gradkeeper.engine.ranks import Ranks
    from gradkeeper.engine.window import Window


@dataclass(slots=True, eq=False)
class Desk:
    journal: Journal
    ranks: "Ranks"
    raise_nonfinite: bool
    closed: "Callable[[Window], None]"
    """Told of each window that was closed without an exception."""
    open: "Window | None" = None
    told_of_coupling: bool = False
