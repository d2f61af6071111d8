"""Whether the linter says today what docs/wild.md tells of public repositories.

Usage: scripts/bench wild FOLDER

FOLDER holds checkouts, each as owner+name. Each place of the table is checked at the commit that
is named: its file alone, and where that is silent the whole checkout, for those who call it. What
is not there, or at another commit, is told. Exit 1 where the linter says otherwise.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from gradkeeper.lint.check import check_files
from gradkeeper.lint.files import find
from gradkeeper.model.finding import Finding, Severity

PAGE = Path(__file__).resolve().parent.parent / "docs" / "wild.md"
COMMIT = r"\[?([0-9a-f]{12})(?:\]\(\S+\))?"
ROW = re.compile(rf"^\| (\S+/\S+) \| {COMMIT} \| (.+?) \| (GK\d+) \| (.+?) \|$", re.M)
PLACE = re.compile(r"^(.+?):(?:cell (\d+):)?(\d+)$")


@dataclass(frozen=True, slots=True)
class Claim:
    """One line that the page says the linter speaks of."""

    repository: str
    commit: str
    file: str
    cell: int | None
    line: int
    rule: str

    def __str__(self) -> str:
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.repository} {self.file}:{cell}{self.line} {self.rule}"

    def told_by(self, finding: Finding) -> bool:
        same = (finding.rule, finding.cell, finding.line) == (self.rule, self.cell, self.line)
        return same and finding.severity is not Severity.INFO


def claims(page: str) -> Iterator[Claim]:
    for repository, commit, places, rule, _ in ROW.findall(page):
        for place in places.split(", "):
            found = PLACE.match(place)
            if found is None:
                raise SystemExit(f"{place!r}: not a file and a line")
            cell = int(found[2]) if found[2] else None
            yield Claim(repository, commit, found[1], cell, int(found[3]), rule)


def verdict(claim: Claim, folder: Path) -> str:
    """`told`, or what is in the way."""
    checkout = folder / claim.repository.replace("/", "+")
    if not (checkout / claim.file).exists():
        return "not here"
    words = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    if not commit.startswith(claim.commit):
        return f"here at {commit[:12] or 'no commit'}"
    with chdir(checkout):
        told = any(map(claim.told_by, _found_in(claim.file, [claim.file])))
        told = told or any(map(claim.told_by, _found_in(claim.file, list(find(["."])))))
    return "told" if told else "NOT TOLD"


def _found_in(file: str, checked: list[str]) -> list[Finding]:
    results = dict(check_files(checked, [file], fixes=False))
    return results[file].findings


def main(words: list[str]) -> int:
    if len(words) != 1 or not Path(words[0]).is_dir():
        print("usage: scripts/bench wild FOLDER", file=sys.stderr)
        return 2
    counts: dict[str, int] = {}
    for claim in claims(PAGE.read_text()):
        said = verdict(claim, Path(words[0]).resolve())
        kind = "at another commit" if said.startswith("here at") else said
        counts[kind] = counts.get(kind, 0) + 1
        if said != "told":
            print(f"{claim}: {said}")
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int("NOT TOLD" in counts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
