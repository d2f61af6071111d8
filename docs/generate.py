"""Writes what is generated: the output blocks of README.md, and a page for each rule.

An output block is a fence that follows a comment such as `<!-- output of: gradkeeper demo -->`.
The command runs in an empty folder that holds README's first Python block as train.py.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from gradkeeper.cli.explain import document
from gradkeeper.rules import ALL

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = ROOT / "docs" / "rules"
COPIES = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
}
OUTPUT = re.compile(r"(<!-- output of: gradkeeper (.+?) -->\n```text\n)(.*?)(^```$)", re.M | re.S)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def python_blocks(text: str) -> list[str]:
    return PYTHON.findall(text)


def with_outputs(text: str) -> str:
    """The text with every output block as its command prints it now."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("train.py").write_text(python_blocks(text)[0])
        return OUTPUT.sub(lambda found: found[1] + printed(found[2]) + found[4], text)


def printed(command: str) -> str:
    """What a terminal would show."""
    words = [sys.executable, "-m", "gradkeeper", *shlex.split(command)]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout.rstrip() + "\n"


def write_pages() -> None:
    PAGES.mkdir(exist_ok=True)
    lines = ["# Rules", "", "| code | name | severity | what it finds |", "|---|---|---|---|"]
    for rule in ALL:
        link = f"[{rule.code}]({rule.code}.md)"
        lines.append(f"| {link} | {rule.name} | {rule.severity} | {rule.summary} |")
        page = (
            document(rule)
            .replace("```python bad", "```python")
            .replace("```python good", "```python")
        )
        (PAGES / f"{rule.code}.md").write_text(f"# {page}")
    (PAGES / "index.md").write_text("\n".join(lines) + "\n")


def main() -> int:
    text = README.read_text()
    README.write_text(with_outputs(text))
    write_pages()
    for source, page in COPIES.items():
        # From inside docs/, where the pages are, its pictures are nearer.
        text = (ROOT / source).read_text().replace("](docs/", "](")
        (ROOT / "docs" / page).write_text(text)
    return 0


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"
    sys.exit(main())
