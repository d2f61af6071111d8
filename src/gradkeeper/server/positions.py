"""Lines and columns of a text, as editors count them: from 0, in units of an agreed encoding."""

import re

from gradkeeper.lint.files import decode, lines_of

UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
CODE = re.compile(r"[^#\r\n]*")


class Text:
    def __init__(self, raw: bytes, units: str = "utf-16") -> None:
        self.lines = [line.rstrip("\r\n") for line in lines_of(decode(raw)[0])]
        self._codec, self._bytes = UNITS[units]

    def position(self, line: int, column: int) -> tuple[int, int]:
        """Of a line and a column from 1."""
        before = self.line(line)[: column - 1]
        return line - 1, self._length(before)

    def end_of_code(self, line: int, column: int) -> tuple[int, int]:
        """Where a statement ends that begins there, without a comment; at least a letter on."""
        text = self.line(line)
        found = CODE.match(text, column - 1)
        end = len(found[0].rstrip()) + column - 1 if found else column
        return line - 1, self._length(text[: max(end, column)])

    def end_of_line(self, line: int) -> tuple[int, int]:
        return line - 1, self._length(self.line(line))

    def word(self, line: int, unit: int) -> str:
        """The word at a place of the editor's, of letters, digits and hyphens."""
        text = self.line(line + 1)
        for found in re.finditer(r"[\w-]+", text):
            if self._length(text[: found.start()]) <= unit <= self._length(text[: found.end()]):
                return found[0]
        return ""

    def line(self, number: int) -> str:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def _length(self, text: str) -> int:
        return len(text.encode(self._codec, "surrogatepass")) // self._bytes
