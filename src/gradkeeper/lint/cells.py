"""Where the code of a notebook's cells stands in its file, so that a fix edits nothing else.

A cell's source is one JSON string, or a list of them, as a rule one a line.
"""

import json
import re
from bisect import bisect_right
from dataclasses import dataclass

from gradkeeper.lint.edits import offsets
from gradkeeper.model.finding import Edit

DECODER = json.JSONDecoder()
SPACE = re.compile(r"[ \t\r\n]*")
PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
CHARACTER = re.compile(rf"{PAIR}|\\u[0-9a-fA-F]{{4}}|\\.|[^\\]", re.S)
"""What stands for one character inside a JSON string."""


@dataclass(slots=True)
class Cell:
    text: str
    places: list[int]
    """Where each character stands in the file, and where one after the last would."""
    between: str = ""
    """What parts two strings of its list; empty where its source is a single string."""

    def place(self, line: int, column: int) -> int:
        """Where a place in the cell, counted from 1, stands in the file."""
        start = 0
        for _ in range(line - 1):
            start = self.text.index("\n", start) + 1
        return self.places[start + column - 1]

    def written(self, text: str) -> str:
        """New code as it stands in the file: escaped, and each line in a string of its own."""
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        return escaped.replace("\\n", f"\\n{self.between}") if self.between else escaped

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1


def locate(file: str) -> dict[int, Cell]:
    """The cells by their number from 1. `file` is known to be a notebook."""
    book = {key: start for key, start, _ in _values(file, file.index("{"))}
    found = {}
    for number, (_, start, _) in enumerate(_values(file, book["cells"]), 1):
        for key, begin, end in _values(file, start):
            if key == "source":
                found[number] = _cell(file, begin, end)
    return found


def _skip(text: str, place: int) -> int:
    space = SPACE.match(text, place)
    return space.end() if space else place


def _values(text: str, start: int) -> list[tuple[str, int, int]]:
    """The values of an object or a list: their keys, where they begin and where they end."""
    found = []
    closing = "}" if text[start] == "{" else "]"
    place = _skip(text, start + 1)
    while text[place] != closing:
        key = ""
        if closing == "}":
            key, place = DECODER.raw_decode(text, place)
            place = _skip(text, _skip(text, place) + 1)
        _, end = DECODER.raw_decode(text, place)
        found.append((key, place, end))
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)
    return found


def _cell(file: str, begin: int, end: int) -> Cell:
    listed = file[begin] == "["
    strings = [(a, b) for _, a, b in _values(file, begin)] if listed else [(begin, end)]
    text = ""
    places: list[int] = []
    for start, stop in strings:
        text += json.loads(file[start:stop])
        places += [one.start() for one in CHARACTER.finditer(file, start + 1, stop - 1)]
    last = strings[-1][1] - 1 if strings else begin + 1
    between = file[strings[0][1] - 1 : strings[1][0] + 1] if len(strings) > 1 else ""
    return Cell(text, [*places, last], between)


def in_file(file: str, cell: Cell, edit: Edit, first: int) -> Edit:
    """An edit of the program, of which the cell begins on line `first`, as one of the file."""
    start_line, end_line = edit.start[0] - first + 1, edit.end[0] - first + 1
    text = edit.text
    if start_line > cell.lines:
        # Below a last line that has no end of its own.
        text = "\n" + text.removesuffix("\n")
    start = cell.places[-1] if start_line > cell.lines else cell.place(start_line, edit.start[1])
    end = cell.places[-1] if end_line > cell.lines else cell.place(end_line, edit.end[1])
    new = cell.written(text)
    if start == cell.places[-1] and cell.text.endswith("\n"):
        new = cell.between + new.removesuffix(cell.between)  # a string after the last one
    starts = offsets(file)
    return Edit(edit.path, _position(starts, start), _position(starts, end), new)


def _position(starts: list[int], place: int) -> tuple[int, int]:
    line = bisect_right(starts, place)
    return line, place - starts[line - 1] + 1
