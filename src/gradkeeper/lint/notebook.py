"""Notebooks: code cells as one program, and back from its lines to cells and to the file.

A cell's source is one JSON string, or a list of them, as a rule one a line.
"""

import ast
import json
import re
import tokenize
import warnings
from bisect import bisect_right
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from gradkeeper.lint.fixes import offsets, replaced
from gradkeeper.model.finding import Because, Edit, Finding, Fix
from gradkeeper.model.site import WITHIN, Site

MAGIC_VALUE = re.compile(r"^(\s*[\w.,\s]+=\s*)[!%]")
TIMED = re.compile(
    r"(\s*)(%(?:time|prun|memit|timeit)(?: +-\w+(?: +\d+)?)* +)"
    r"((?!(?:async|class|def|for|if|try|while|with|-)\b)\S.*)"
)
"""`%time train(model)`: a magic that runs the simple statement behind it."""
HELP = re.compile(r"[%\w.\[\]'\"*]+\?\??\s*(#.*)?")
"""`model?`, `model.forward??`: they show a document."""
COMMAND = re.compile(
    r"(pip|conda|mamba|cd|ls|mkdir|rm|cp|mv|cat) +(?!(in|is|and|or|not|if|for)\b)[\w./~-]"
)
"""A command of the shell as it may stand in a cell without a mark."""
DECODER = json.JSONDecoder()
SPACE = re.compile(r"[ \t\r\n]*")
PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
CHARACTER = re.compile(rf"{PAIR}|\\u[0-9a-fA-F]{{4}}|\\.|[^\\]", re.S)
"""What stands for one character inside a JSON string."""
SPOKEN_OF = (b"torch", b"lightning", b"accelerate")
"""One of them stands in every notebook that trains with PyTorch."""


@dataclass(slots=True)
class Notebook:
    text: str
    starts: list[tuple[int, int]]
    """For each code cell: its number, from 1 over all cells, and the line it begins on."""
    file: str = ""
    """The JSON as it stands on disk."""
    broken: tuple[tuple[int, SyntaxError | ValueError, str], ...] = ()
    """Cells that cannot be read as Python, why, and their code, which is left out of `text`."""

    def place(self, line: int) -> tuple[int | None, int]:
        cell, first = None, 1
        for number, start in self.starts:
            if start > line:
                break
            cell, first = number, start
        return cell, line - first + 1

    def shown(self, line: int) -> str:
        cell, within = self.place(line)
        return f"cell {cell}:{within}"

    def in_cell(self, site: Site) -> Site:
        """A site of the program as one of its cell, for rules to speak of."""
        cell, line = self.place(site.line)
        return site if cell is None else site._replace(file=f"{site.file}{WITHIN}{cell}", line=line)

    def in_program(self, finding: Finding) -> Finding:
        """What was said of cells, with its sites where the program has them."""
        because = tuple(
            replace(reason, site=self._joined(reason.site)) for reason in finding.because
        )
        return replace(finding, site=self._joined(finding.site), because=because)

    def _joined(self, site: Site) -> Site:
        file, within, cell = site.file.rpartition(WITHIN)
        if not within:
            return site
        return site._replace(file=file, line=site.line + dict(self.starts)[int(cell)] - 1)

    def localise(self, finding: Finding) -> Finding:
        """The finding with its cell, and lines counted in their cells."""
        cell, line = self.place(finding.site.line)
        because = tuple(self._because(reason, finding.site.file) for reason in finding.because)
        site = finding.site._replace(line=line)
        return replace(finding, site=site, cell=cell, because=because, fix=self._fix(finding.fix))

    def _because(self, reason: Because, path: str) -> Because:
        if reason.site.file != path:
            return reason  # of a module that the notebook imports
        cell, line = self.place(reason.site.line)
        return replace(reason, site=reason.site._replace(line=line), cell=cell)

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
        same = after is not None and _code_lines(after.text) == _code_lines(
            replaced(self.text, fix.edits)
        )
        return Fix(fix.safe, tuple(edits)) if same else None


def read(raw: bytes) -> Notebook | None:
    """ValueError if it is no notebook; None if it is one in another language than Python."""
    try:
        file = raw.decode("utf-8-sig")
        book = json.loads(file)
        sources = [_source(cell) for cell in book["cells"]]
        if not _is_python(book.get("metadata") or {}):
            return None
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(f"no JSON: {error.msg}", error.doc, error.pos) from None
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"it has no cells as notebooks have them ({error})") from None
    lines: list[str] = []
    starts = []
    broken = []
    for number, source in enumerate(sources, 1):
        if source is None:
            continue
        starts.append((number, len(lines) + 1))
        code = _tolerated(source)
        fault = _fault(code)
        if fault is not None:
            broken.append((number, fault, "\n".join(code)))
            code = ["" for _ in code]
        lines.extend(code)
        lines.append("")
    return Notebook("\n".join(lines) + "\n", starts, file, tuple(broken))


def may_concern(raw: bytes) -> bool:
    """A byte scan: some cell, read or not, may have to do with PyTorch.

    Course notebooks of other libraries are full of cells with a gap to fill in: what is wrong with
    them is for others to say.
    """
    return any(word in raw for word in SPOKEN_OF)


def _is_python(metadata: dict[str, Any]) -> bool:
    """As the kernel says that ran it; one that says nothing is taken for Python."""
    about = metadata.get("language_info") or {}
    kernel = metadata.get("kernelspec") or {}
    language = about.get("name") or kernel.get("language") or "python"
    return "python" in str(language).lower()


def _fault(code: list[str]) -> SyntaxError | ValueError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse("\n".join(code) + "\n")
    except (SyntaxError, ValueError) as error:
        return error
    return None


def _code_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _source(cell: dict[str, object]) -> str | None:
    if cell["cell_type"] != "code":
        return None
    source = cell["source"]
    return "".join(source) if isinstance(source, list) else str(source)


def _tolerated(source: str) -> list[str]:
    """Magics and shell lines become `pass`; a cell magic takes its whole cell, unless it times."""
    lines = _dedented(source.split("\n"))
    told = (line.strip() for line in lines)
    first = next((line for line in told if line and not line.startswith("#")), "")
    if first.startswith("%%") and not first.startswith(("%%time", "%%capture", "%%prun")):
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


def _dedented(lines: list[str]) -> list[str]:
    """Without the indentation that the first line of code has, as IPython reads a cell."""
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return [line.removeprefix(indent) for line in lines] if indent else lines


def _line(line: str) -> str:
    bare = line.strip()
    timed = TIMED.match(line)
    if timed:
        # The statement behind it runs. Its columns stay, for whoever is told of them.
        indent, magic, statement = timed.groups()
        return f"{indent}{'0;'.ljust(len(magic))}{statement}"
    assigned = MAGIC_VALUE.match(line)
    if assigned:
        return f"{assigned.group(1)}None"
    command = COMMAND.match(bare) and _fault([bare])
    if bare.startswith(("%", "!", "?")) or HELP.fullmatch(bare) or command:
        return line[: len(line) - len(line.lstrip())] + "pass"
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
        places += [match.start() for match in CHARACTER.finditer(file, start + 1, stop - 1)]
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
