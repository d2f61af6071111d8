"""A baseline: the findings that an old code base already has, so that only new ones are told.

Findings are known by rule, file and the text of their line, so that they survive edits elsewhere.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable

from gradkeeper.model.finding import Finding

VERSION = 1
LineOf = Callable[[Finding], str]


def fingerprint(finding: Finding, path: str, line: str) -> str:
    text = "\0".join((finding.rule, path.replace("\\", "/"), line.strip()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def dump(prints: Iterable[str]) -> str:
    counts = Counter(prints)
    body = {"version": VERSION, "findings": dict(sorted(counts.items()))}
    return json.dumps(body, indent=2) + "\n"


def load(text: str) -> Counter[str]:
    """ValueError if it is no baseline."""
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
