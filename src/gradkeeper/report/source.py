"""The user's files as a report shows them: a path from here, a line of text."""

import json
import linecache
import os
import re
from functools import lru_cache
from io import BytesIO
from pathlib import Path

from gradkeeper.model import Site

LINE_END = re.compile(r"\r\n|\r|\n")
"""str.splitlines would also break at form feeds and at U+2028, where Python goes on."""

STDIN = "<stdin>"


def shown_path(path: str) -> str:
    """Relative to the working directory, where the file lies below it."""
    return Site(path, 1).path


def line_of(path: str, line: int, cell: int | None = None) -> str | None:
    """The text of one line, of a notebook's cell if one is given; None if it is not to be had."""
    if Site(path, line).in_cell or path == STDIN:
        # Neither has a file, and In[1] of the next session is another one: never kept here.
        lines = tuple(linecache.getlines(path))
    else:
        # Whole, because what is kept must not outlive a change of folder.
        lines = _lines(os.path.abspath(path), cell)
    if not 1 <= line <= len(lines):
        return None
    return lines[line - 1]


def show_as_stdin(raw: bytes) -> None:
    """What came from standard input, of which nobody can ask for a line again."""
    linecache.cache[STDIN] = (len(raw), None, list(lines_in(raw)), STDIN)


def forget() -> None:
    """For who reports again and again: the files may have changed."""
    _lines.cache_clear()


@lru_cache(maxsize=64)
def _lines(path: str, cell: int | None) -> tuple[str, ...]:
    try:
        return lines_in(Path(path).read_bytes(), cell)
    except OSError:
        return ()


def lines_in(raw: bytes, cell: int | None = None) -> tuple[str, ...]:
    """The lines of a file, or of one cell of a notebook; none where they cannot be read."""
    try:
        if cell is None:
            return tuple(LINE_END.split(_decoded(raw)))
        source = json.loads(raw)["cells"][cell - 1]["source"]
        return tuple("".join(source).split("\n"))
    except (ValueError, LookupError, TypeError):
        return ()


def _decoded(raw: bytes) -> str:
    """UTF-8, or as the first lines declare; letters that are neither are left out of the picture,
    not their line."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        import tokenize  # slow, and hardly ever needed

        try:
            declared = tokenize.detect_encoding(BytesIO(raw).readline)[0]
        except SyntaxError:
            declared = "utf-8"
        return raw.decode(declared, "replace")
