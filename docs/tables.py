"""Tables that README and the pages quote from docs/bench, where benchmarks keep what they printed.

A quoted table follows a comment such as `<!-- table of: resume -->` and an empty line.
"""

import re
from pathlib import Path

KEPT = Path(__file__).resolve().parent / "bench"
QUOTED = re.compile(r"(<!-- table of: (\S+) -->\n\n)((?:\|.*\n)*)")


def kept(name: str) -> str:
    """The table that a benchmark printed when it was last run for the documents."""
    lines = (KEPT / f"{name}.md").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith("|"))


def with_tables(text: str) -> str:
    """The text with every quoted table as it is kept now."""
    return QUOTED.sub(lambda found: found[1] + kept(found[2]), text)
