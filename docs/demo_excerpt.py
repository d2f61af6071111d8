"""Quotes the demo's third part in guide/resume.md, under `<!-- part 3 of: gradkeeper demo -->`.

Usage: python docs/demo_excerpt.py

Losses, digests and the very place of the kill are those of one run on one machine. Two excerpts
count as the same if they differ in these only, and if digests that are equal in one are equal in
the other.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "guide" / "resume.md"
QUOTED = re.compile(r"(<!-- part 3 of: gradkeeper demo -->\n```text\n)(.*?)(^```$)", re.M | re.S)
PROGRESS = re.compile(r"^ *step \d+: loss .*\n", re.M)
# A signal takes its time: a process may get further than the line that it dies for.
PLACE = re.compile(r"(?<=after step )\d+|(?<=and )\d+(?= micro-batches)|(?<=save-)\d+")
DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def quoted(page: str) -> str:
    """What the page shows now."""
    found = QUOTED.search(page)
    if found is None:
        raise LookupError("the page quotes no part of the demo")
    return found[2]


def third_part(output: str) -> str:
    """Without its title."""
    after = output.partition("\n3/4")[2].partition("\n4/4")[0]
    return after.partition("\n")[2].strip("\n") + "\n"


def steady(text: str) -> str:
    """With names in place of what may differ between runs; equal digests, equal names."""
    names: dict[str, str] = {}
    text = PLACE.sub("N", PROGRESS.sub("", text))
    return DIGEST.sub(lambda found: names.setdefault(found[0], f"digest {len(names)}"), text)


def renewed(page: str, output: str) -> str:
    part = third_part(output)
    if steady(part) == steady(quoted(page)):
        return page
    return QUOTED.sub(lambda found: found[1] + part + found[3], page)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "gradkeeper", "demo"],
            cwd=folder,
            env={**os.environ, "NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            text=True,
            timeout=1200,
            check=True,
        )
    PAGE.write_text(renewed(PAGE.read_text(), done.stdout))
    return 0


if __name__ == "__main__":
    sys.exit(main())
