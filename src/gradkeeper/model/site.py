"""Where something happened in the user's code."""

import os
import re
from typing import NamedTuple

PART = " of them"
ADDED = re.compile(rf"(:\d+{PART})?(#\d+)?( of line \d+( \(\d+\))?)?$")


def variable(name: str) -> str:
    """What the program calls it. Front ends number what shares a name, as in `optimizer#2`, say
    where it was built, as in `optimizer of line 8`, and count the members of a part that has none,
    as in `optimizer:3 of them`."""
    return ADDED.sub("", name)


CELL = "cell In"
"""How the file of a site begins that lies in a notebook's running cell, as in `cell In[3]`."""
WITHIN = ":cell "
"""What parts a notebook's file from the number of a cell, as in `train.ipynb:cell 3`."""


class Site(NamedTuple):
    """A file, a line and a column (both from 1), and the function they lie in."""

    file: str
    line: int
    column: int = 1
    function: str = "<module>"

    @property
    def in_cell(self) -> bool:
        return self.file.startswith(CELL + "[")

    @property
    def path(self) -> str:
        """The file, relative to the working directory where it lies below it."""
        if not os.path.isabs(self.file):
            return self.file
        try:
            relative = os.path.relpath(self.file)
        except ValueError:  # another drive
            return self.file
        return self.file if relative.startswith("..") else relative

    def __str__(self) -> str:
        if self.in_cell:
            return f"{self.file} line {self.line}"
        return f"{self.file}:{self.line}:{self.column}"

    def seen_from(self, other: "Site") -> str:
        """The line as one would name it while looking at `other`: the file only if it differs."""
        if self.file == other.file:
            return f"line {self.line}"
        book, within, cell = self.file.rpartition(WITHIN)
        if within and other.file.startswith(f"{book}{WITHIN}"):
            return f"cell {cell} line {self.line}"
        return str(self) if self.in_cell else f"{self.file}:{self.line}"

    def brief_from(self, other: "Site") -> str:
        """The same without the word."""
        return self.seen_from(other).removeprefix("line ")
