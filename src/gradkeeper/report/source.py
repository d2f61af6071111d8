"""The user's files as a report shows them: a path from here, a line of text."""

import linecache
import os
from functools import lru_cache
from pathlib import Path

from gradkeeper.model import Site


def shown_path(path: str) -> str:
    """Relative to the working directory, where the file lies below it."""
    if not os.path.isabs(path):
        return path
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else relative


def line_of(path: str, line: int) -> str | None:
    """The text of one line, or None where it is not to be had."""
    # Cells have no file, and In[1] of the next session is another one: never kept here.
    lines = linecache.getlines(path) if Site(path, line).in_cell else _lines(path)
    if not 1 <= line <= len(lines):
        return None
    return lines[line - 1]


@lru_cache(maxsize=64)
def _lines(path: str) -> tuple[str, ...]:
    try:
        return tuple(Path(path).read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        return ()
