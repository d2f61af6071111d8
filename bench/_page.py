"""Keeps what a benchmark printed, with its date and machine: `scripts/bench --docs NAME [ARGS]`.

The documents include these files, so that no figure in them is typed by hand.
"""

import datetime
import importlib.metadata
import itertools
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).resolve().parent.parent / "docs" / "bench"


def machine() -> str:
    torch = importlib.metadata.version("torch")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} CPU cores, no GPU, Python {platform.python_version()}, torch {torch}"


def page(words: list[str], printed: str, day: datetime.date) -> str:
    # Where somebody keeps a folder is nobody's business.
    shown = [Path(word).name if word.startswith("/") else word for word in words]
    command = shlex.join(["scripts/bench", *shown])
    return f"{day}, {machine()}, `{command}`:\n\n{shown_as(printed)}\n"


def shown_as(printed: str) -> str:
    """Tables as tables, and the rest as it was printed."""
    parts = []
    for is_table, lines in itertools.groupby(printed.splitlines(), lambda one: one[:1] == "|"):
        text = "\n".join(lines).strip("\n")
        if text:
            parts.append(text if is_table else f"```text\n{text}\n```")
    return "\n\n".join(parts)


def main(words: list[str]) -> int:
    name, *arguments = words
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        return done.returncode
    PAGES.mkdir(exist_ok=True)
    today = datetime.datetime.now(datetime.UTC).date()
    (PAGES / f"{name}.md").write_text(page(words, done.stdout, today))
    print(done.stdout, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
