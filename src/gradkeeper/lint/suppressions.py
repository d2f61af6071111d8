"""Comments that silence a line: `# gradkeeper: allow stale-gradient - reason`, `# noqa: GK101`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from gradkeeper.lint.source_text import lines_of
from gradkeeper.model.finding import Finding

ALLOW = re.compile(r"#\s*gradkeeper:\s*allow\s+([\w\-]+(?:\s*,\s*[\w\-]+)*)(?:\s+-+\s*(.*))?")
NOQA = re.compile(r"#\s*noqa\b(?:\s*:\s*([A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*))?", re.I)


@dataclass(slots=True)
class Suppression:
    line: int
    names: tuple[str, ...]
    """Codes and names; empty for all."""
    covers: tuple[int, ...]
    reason: str = ""
    ours: bool = True
    """It speaks of our codes only, so that we can tell whether it is used."""
    used: set[str] = field(default_factory=set)

    def silences(self, finding: Finding) -> bool:
        if finding.site.line not in self.covers:
            return False
        if not self.names:
            return True
        for name in (finding.rule, finding.name):
            if name in self.names:
                self.used.add(name)
                return True
        return False

    @property
    def unused(self) -> list[str]:
        return [name for name in self.names if name not in self.used] if self.ours else []


def read(text: str) -> list[Suppression]:
    if "gradkeeper:" not in text and "noqa" not in text.lower():
        return []
    found = []
    for number, line in enumerate(lines_of(text), 1):
        if "#" not in line:
            continue
        allow = ALLOW.search(line)
        if allow:
            names = tuple(re.split(r"\s*,\s*", allow.group(1)))
            # A comment on a line of its own speaks of the line below it.
            alone = line.lstrip().startswith("#")
            found.append(
                Suppression(number, names, (number + 1 if alone else number,), allow.group(2) or "")
            )
        noqa = NOQA.search(line)
        if noqa:
            codes = tuple(re.findall(r"[A-Z]+\d+", (noqa.group(1) or "").upper()))
            ours = tuple(code for code in codes if code.startswith("GK"))
            if ours or not codes:
                found.append(Suppression(number, ours, (number,), ours=bool(ours)))
    return found


def apply(
    findings: Iterable[Finding], suppressions: list[Suppression]
) -> tuple[list[Finding], list[tuple[int, str]]]:
    """What is left, and the suppressions that silence nothing, by line and name."""
    kept = [
        finding
        for finding in findings
        if not [one for one in suppressions if one.silences(finding)]
    ]
    unused = [(one.line, name) for one in suppressions for name in one.unused]
    return kept, unused
