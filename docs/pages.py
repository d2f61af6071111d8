"""What is generated inside the hand-written pages of docs/: outputs and pictures.

    <!-- output -->                             what the Python block above it prints
    <!-- output of: gradkeeper check train.py --> what the command prints, beside that block
    <!-- words of: gradkeeper.testing -->       what a module says of itself
    <!-- versions of: pytest ipython -->        what constraints.txt pins
    <!-- drawing: cycle -->                     a picture of drawings.py

All are followed by a text fence, the last by a figure. They may be indented, as the content of a
folded answer is.
"""

import ast
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

from docs import blocks
from docs.drawings import DRAWINGS

DOCS = Path(__file__).resolve().parent
FOLDERS = ("learn", "guide")

PART = re.compile(
    r"^(?P<margin> *)```(?P<fence>python|py)\n(?P<code>.*?)^(?P=margin)```$"
    r"|^(?P<inset> *)<!-- (?:output(?: of: gradkeeper (?P<command>.+?))?|words of: (?P<module>\S+)"
    r"|versions of: (?P<packages>.+?)) -->\n"
    r"(?P=inset)```text\n(?P<printed>.*?)^(?P=inset)```$"
    r"|^<!-- drawing: (?P<drawing>\S+) -->\n<figure>\n(?P<figure>.*?)^</figure>$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Part:
    """One generated place of a page, and the block that it speaks of."""

    span: tuple[int, int]
    margin: str
    source: str
    command: str | None = None
    module: str | None = None
    packages: str | None = None
    drawing: str | None = None


def hand_written() -> list[Path]:
    return sorted(page for folder in FOLDERS for page in (DOCS / folder).glob("*.md"))


def python_blocks(text: str) -> list[str]:
    """Those that run; a `py` fence is only read, by the commands below it."""
    return [dedent(found["code"]) for found in PART.finditer(text) if found["fence"] == "python"]


def parts(text: str) -> Iterator[Part]:
    source = ""
    for found in PART.finditer(text):
        if found["code"] is not None:
            source = dedent(found["code"])
        elif found["drawing"] is not None:
            yield Part(found.span("figure"), "", source, drawing=found["drawing"])
        else:
            asked = {name: found[name] for name in ("command", "module", "packages")}
            yield Part(found.span("printed"), found["inset"], source, **asked)


def renewed(texts: list[str], printed: Callable[[str], str]) -> list[str]:
    """The pages as they should read now. Every Python block runs, whether it is quoted or not."""
    sources = list(dict.fromkeys(block for text in texts for block in python_blocks(text)))
    outputs = dict(zip(sources, blocks.run(sources), strict=True))
    return [_renewed(text, outputs, printed) for text in texts]


def _renewed(text: str, outputs: dict[str, str], printed: Callable[[str], str]) -> str:
    # From the end, so that the places of what comes before stay the same.
    for part in reversed(list(parts(text))):
        start, end = part.span
        text = text[:start] + indent(_content(part, outputs, printed), part.margin) + text[end:]
    return text


def _content(part: Part, outputs: dict[str, str], printed: Callable[[str], str]) -> str:
    if part.drawing is not None:
        return DRAWINGS[part.drawing]()
    if part.module is not None:
        return _words_of(part.module) + "\n"
    if part.packages is not None:
        return _versions_of(part.packages.split())
    if part.command is None:
        return outputs[part.source].rstrip() + "\n"
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("train.py").write_text(part.source)
        return printed(part.command)


def _words_of(module: str) -> str:
    file = DOCS.parent / "src" / (module.replace(".", "/") + ".py")
    return ast.get_docstring(ast.parse(file.read_text())) or ""


def _versions_of(packages: list[str]) -> str:
    """All tests run with these: scripts/_venv installs nothing else."""
    pins = (DOCS.parent / "constraints.txt").read_text().splitlines()
    versions = dict(pin.split("==") for pin in pins if "==" in pin)
    return "".join(f"{name} {versions[name]}\n" for name in packages)
