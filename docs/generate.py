"""Writes what is generated: outputs and tables in README.md and the pages, a page for each rule.

Usage: python docs/generate.py [--check]    with --check it writes nothing, and fails where stale

An output block is a fence that follows a comment such as `<!-- output of: gradkeeper demo -->`.
The command runs in an empty folder that holds the page's Python block above it as the script that
the command ends with; torchrun launches as well. What else the pages know: see pages.py; tables:
tables.py.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from gradkeeper.report import rule_document
from gradkeeper.rules import ALL

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Run as a file, it is in no package.
from docs import pages, reference, screenshots  # noqa: E402
from docs.tables import with_tables  # noqa: E402

README = ROOT / "README.md"
PAGES = ROOT / "docs" / "rules"
COPIES = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
}
OUTPUT = re.compile(r"(<!-- output of: (.+?) -->\n```(?:text|diff)\n)(.*?)(^```$)", re.M | re.S)
OFTEN = re.compile(r" \(\d+ times(?:, steps \d+ to \d+| between steps \d+ and \d+)?\)")
LOGGED = re.compile(r"^(?:\[rank\d+\]:)?\[?[WIE]\d{4} .*\n", re.M)
NOT_KEPT = "No figures are kept here yet: `scripts/bench --docs {}` measures and keeps them.\n"
FENCE = re.compile(r"^```python (bad|good)\b.*$", re.M)
TITLED = {"bad": '```python title="wrong"', "good": '```python title="right"'}
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def python_blocks(text: str) -> list[str]:
    return PYTHON.findall(text)


def with_outputs(text: str) -> str:
    """The text with every output block as its command prints it now."""

    def renewed(found: re.Match[str]) -> str:
        script = Path(found[2].split()[-1])
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(python_blocks(text[: found.start()])[-1])
        now = printed_by(found[2])
        return found[1] + (found[3] if steady(now) == steady(found[3]) else now) + found[4]

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return OUTPUT.sub(renewed, text)


def steady(printed: str) -> str:
    """Without what differs between runs of several ranks: how often they were compared, and what
    torch itself logs on a busy machine."""
    return OFTEN.sub("", LOGGED.sub("", printed))


def printed_by(command: str) -> str:
    program, _, words = command.partition(" ")
    if program == "torchrun":
        # On a free port, so that nobody else's training is in the way.
        return _shown("torch.distributed.run", "--standalone", *shlex.split(words))
    assert program == "gradkeeper", f"{program} is not run for the documents"
    return printed(words)


def printed(command: str) -> str:
    """What a terminal would show."""
    return _shown("gradkeeper", *shlex.split(command))


def _shown(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # torchrun complains where it has to choose the number of threads.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
        check=False,
    )
    return done.stdout.rstrip() + "\n"


def write_pages() -> None:
    PAGES.mkdir(exist_ok=True)
    lines = ["# Rules", "", "| code | name | severity | what it finds |", "|---|---|---|---|"]
    for rule in ALL:
        link = f"[{rule.code}]({rule.code}.md)"
        lines.append(f"| {link} | {rule.name} | {rule.severity} | {rule.summary} |")
        page = FENCE.sub(lambda found: TITLED[found[1]], rule_document.plain(rule))
        (PAGES / f"{rule.code}.md").write_text(f"# {page}")
    (PAGES / "index.md").write_text("\n".join(lines) + "\n")


def write_benchmarks() -> None:
    """Each benchmark's own words, and what it printed when it was last run for the documents."""
    lines = ["# Benchmarks", "", (ROOT / "docs" / "bench" / "about.md").read_text()]
    for script in sorted((ROOT / "bench").glob("[!_]*.py")):
        words = ast.get_docstring(ast.parse(script.read_text())) or ""
        kept = ROOT / "docs" / "bench" / f"{script.stem}.md"
        told = kept.read_text() if kept.exists() else NOT_KEPT.format(script.stem)
        lines += [f"## {script.stem}", "", as_prose(words), "", told]
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(lines))


def as_prose(words: str) -> str:
    """A docstring as paragraphs, with how to call it as code."""
    usage = re.compile(r"^Usage: (.+?)(?=\n\n|\Z)", re.M | re.S)
    return usage.sub(r"```sh\n\1\n```", words)


def current() -> dict[Path, str]:
    """What README and the hand-written pages should read now."""
    files = pages.hand_written()
    texts = pages.renewed([file.read_text() for file in files], printed)
    wanted = {README: with_outputs(README.read_text()), **dict(zip(files, texts, strict=True))}
    return {file: with_tables(text) for file, text in wanted.items()}


def stale(wanted: dict[Path, str]) -> list[Path]:
    return [file for file, text in wanted.items() if file.read_text() != text]


def main(words: list[str]) -> int:
    wanted = current()
    old = stale(wanted)
    if words == ["--check"]:
        for file in old:
            print(f"{file.relative_to(ROOT)} is stale: run scripts/docs", file=sys.stderr)
        return int(bool(old))
    for file in old:
        file.write_text(wanted[file])
    picture = screenshots.found_in(ROOT / screenshots.FIRST_OF_README)
    (screenshots.IMAGES / screenshots.FIRST_PICTURE).write_text(picture)
    write_pages()
    write_benchmarks()
    (ROOT / "docs" / "reference.md").write_text(reference.page())
    for source, page in COPIES.items():
        # From inside docs/, where the pages are, its pictures are nearer.
        text = (ROOT / source).read_text().replace("](docs/", "](")
        (ROOT / "docs" / page).write_text(text)
    return 0


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"
    sys.exit(main(sys.argv[1:]))
