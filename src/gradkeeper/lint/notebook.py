"""Notebooks: code cells as one program, and back from its lines to cells."""

import json
import re
import tokenize
from dataclasses import dataclass, replace
from io import StringIO

from gradkeeper.lint.cells import in_file, locate
from gradkeeper.lint.edits import replaced
from gradkeeper.model.finding import Finding, Fix

MAGIC_VALUE = re.compile(r"^(\s*[\w.,\s]+=\s*)[!%]")


@dataclass(slots=True)
class Notebook:
    text: str
    starts: list[tuple[int, int]]
    """For each code cell: its number, from 1 over all cells, and the line it begins on."""
    file: str = ""
    """The JSON as it stands on disk."""

    def place(self, line: int) -> tuple[int | None, int]:
        cell, first = None, 1
        for number, start in self.starts:
            if start > line:
                break
            cell, first = number, start
        return cell, line - first + 1

    def localise(self, finding: Finding) -> Finding:
        """The finding with its cell, and lines counted in their cells."""
        cell, line = self.place(finding.site.line)
        because = tuple(
            replace(one, site=one.site._replace(line=self.place(one.site.line)[1]))
            for one in finding.because
        )
        site = finding.site._replace(line=line)
        return replace(finding, site=site, cell=cell, because=because, fix=self._fix(finding.fix))

    def _fix(self, fix: Fix | None) -> Fix | None:
        """The same fix as edits of the file; None if the file would not then hold that program."""
        if fix is None:
            return None
        cells = locate(self.file)
        edits = []
        for edit in fix.edits:
            cell, line = self.place(edit.start[0])
            if cell is None:
                return None
            edits.append(in_file(self.file, cells[cell], edit, edit.start[0] - line + 1))
        after = read(replaced(self.file, edits).encode())
        same = _code_lines(after.text) == _code_lines(replaced(self.text, fix.edits))
        return Fix(fix.safe, tuple(edits)) if same else None


def read(raw: bytes) -> Notebook:
    """ValueError if it is no notebook."""
    try:
        file = raw.decode("utf-8-sig")
        cells = json.loads(file)["cells"]
        sources = [_source(cell) for cell in cells]
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a notebook: {error}") from None
    lines: list[str] = []
    starts = []
    for number, source in enumerate(sources, 1):
        if source is None:
            continue
        starts.append((number, len(lines) + 1))
        lines.extend(_tolerated(source))
        lines.append("")
    return Notebook("\n".join(lines) + "\n", starts, file)


def _code_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _source(cell: dict[str, object]) -> str | None:
    if cell["cell_type"] != "code":
        return None
    source = cell["source"]
    return "".join(source) if isinstance(source, list) else str(source)


def _tolerated(source: str) -> list[str]:
    """Magics and shell lines become `pass`; a cell magic takes its whole cell, unless it times."""
    lines = source.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("%%") and not first.lstrip().startswith(("%%time", "%%capture")):
        return ["pass" for _ in lines]
    found: list[str] = []
    goes_on = False
    for line in lines:
        if goes_on:
            goes_on = line.endswith("\\")
            found.append("")  # the rest of a shell command
            continue
        code = _line(line)
        if code != line and _within_statement(found):
            code = line  # `% (a, b)` below an open bracket formats text
        goes_on = code != line and line.endswith("\\")
        found.append(code)
    return found


def _line(line: str) -> str:
    bare = line.lstrip()
    assigned = MAGIC_VALUE.match(line)
    if assigned:
        return f"{assigned.group(1)}None"
    if bare.startswith(("%", "!", "?")) or (bare.endswith("?") and " " not in bare):
        return line[: len(line) - len(bare)] + "pass"
    return line


def _within_statement(above: list[str]) -> bool:
    """A bracket or a string is still open, or the last line goes on behind a backslash."""
    if above and above[-1].endswith("\\"):
        return True
    try:
        for _ in tokenize.generate_tokens(StringIO("\n".join(above)).readline):
            pass
    except tokenize.TokenError as error:
        return "EOF in multi-line" in str(error)
    except SyntaxError:
        return False  # where an indentation is odd, no bracket is open
    return False
