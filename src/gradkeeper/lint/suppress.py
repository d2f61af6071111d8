"""What is known and accepted: lines that a comment silences, findings that a baseline holds.

Comments: `# gradkeeper: allow stale-gradient - reason`, `# noqa: GK101`. A baseline knows the
findings that an old code base already has by rule, file and the text of their line, so that they
survive edits elsewhere.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gradkeeper.lint.files import lines_of
from gradkeeper.model.finding import Finding

ALLOW = re.compile(r"#\s*gradkeeper:\s*allow\s+([\w\-]+(?:\s*,\s*[\w\-]+)*)(?:\s+-+\s*(.*))?")
NOQA = re.compile(r"#\s*noqa\b(?:\s*:\s*([A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*))?", re.I)
VERSION = 1
"""Of a baseline's file."""


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
        if not [suppression for suppression in suppressions if suppression.silences(finding)]
    ]
    unused = [
        (suppression.line, name) for suppression in suppressions for name in suppression.unused
    ]
    return kept, unused


def dump_baseline(prints: Iterable[str]) -> str:
    counts = Counter(prints)
    body = {"version": VERSION, "findings": dict(sorted(counts.items()))}
    import json

    return json.dumps(body, indent=2) + "\n"


def load_baseline(text: str) -> Counter[str]:
    """ValueError if it is no baseline."""
    import json

    body = json.loads(text)
    if not isinstance(body, dict) or body.get("version") != VERSION:
        raise ValueError("not a gradkeeper baseline of version 1")
    return Counter({str(key): int(count) for key, count in body["findings"].items()})


def fresh(
    findings: Iterable[Finding], known: Counter[str], print_of: Callable[[Finding], str]
) -> list[Finding]:
    """The findings that the baseline doesn't hold; each entry excuses as many as it counts."""
    left = Counter(known)
    new = []
    for finding in findings:
        key = print_of(finding)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return new
