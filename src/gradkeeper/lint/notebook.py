"""Notebooks: code cells as one program, and back from its lines to cells."""

import ast
import json
import re
import tokenize
import warnings
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from gradkeeper.lint.cells import in_file, locate
from gradkeeper.lint.edits import replaced
from gradkeeper.model.finding import Because, Finding, Fix
from gradkeeper.model.site import WITHIN, Site

MAGIC_VALUE = re.compile(r"^(\s*[\w.,\s]+=\s*)[!%]")
HELP = re.compile(r"[%\w.\[\]'\"*]+\?\??\s*(#.*)?")
"""`model?`, `model.forward??`: they show a document."""
COMMAND = re.compile(
    r"(pip|conda|mamba|cd|ls|mkdir|rm|cp|mv|cat) +(?!(in|is|and|or|not|if|for)\b)[\w./~-]"
)
"""A command of the shell as it may stand in a cell without a mark."""


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
        because = tuple(replace(one, site=self._joined(one.site)) for one in finding.because)
        return replace(finding, site=self._joined(finding.site), because=because)

    def _joined(self, site: Site) -> Site:
        file, within, cell = site.file.rpartition(WITHIN)
        if not within:
            return site
        return site._replace(file=file, line=site.line + dict(self.starts)[int(cell)] - 1)

    def localise(self, finding: Finding) -> Finding:
        """The finding with its cell, and lines counted in their cells."""
        cell, line = self.place(finding.site.line)
        because = tuple(self._because(one, finding.site.file) for one in finding.because)
        site = finding.site._replace(line=line)
        return replace(finding, site=site, cell=cell, because=because, fix=self._fix(finding.fix))

    def _because(self, one: Because, path: str) -> Because:
        if one.site.file != path:
            return one  # of a module that the notebook imports
        cell, line = self.place(one.site.line)
        return replace(one, site=one.site._replace(line=line), cell=cell)

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
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a notebook: {error}") from None
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
