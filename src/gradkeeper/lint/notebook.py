"""Notebooks: code cells as one program, and back from its lines to cells."""

import json
import re
from dataclasses import dataclass, replace

from gradkeeper.model.finding import Because, Edit, Finding, Fix

MAGIC_VALUE = re.compile(r"^(\s*[\w.,\s]+=\s*)[!%]")


@dataclass(slots=True)
class Notebook:
    text: str
    starts: list[tuple[int, int]]
    """For each code cell: its number, from 1 over all cells, and the line it begins on."""

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
            Because(one.site._replace(line=self.place(one.site.line)[1]), one.note)
            for one in finding.because
        )
        site = finding.site._replace(line=line)
        return replace(finding, site=site, cell=cell, because=because, fix=None)


def read(raw: bytes) -> Notebook:
    """ValueError if it is no notebook."""
    try:
        cells = json.loads(raw.decode("utf-8-sig"))["cells"]
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
    return Notebook("\n".join(lines) + "\n", starts)


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
    return [_line(line) for line in lines]


def _line(line: str) -> str:
    bare = line.lstrip()
    assigned = MAGIC_VALUE.match(line)
    if assigned:
        return f"{assigned.group(1)}None"
    if bare.startswith(("%", "!", "?")) or (bare.endswith("?") and " " not in bare):
        return line[: len(line) - len(bare)] + "pass"
    return line


__all__ = ["Edit", "Fix", "Notebook", "read"]
