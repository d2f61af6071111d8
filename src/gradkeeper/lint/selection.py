"""Which rules speak: the command line's codes over the project's settings."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from os.path import abspath, basename, relpath
from typing import TYPE_CHECKING

from gradkeeper.model.finding import Finding, Severity

if TYPE_CHECKING:
    from gradkeeper.model.rule import Rule

ALWAYS = "GK000"


class UnknownCodeError(ValueError):
    """A code that no rule has."""


@dataclass(slots=True)
class Selection:
    select: frozenset[str] | None = None
    """None: errors and warnings of all rules."""
    extend: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    per_file: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    root: str = "."

    def wants(self, finding: Finding) -> bool:
        code = finding.rule
        if code in self.ignore or self._ignored_in(finding.site.file, code):
            return False
        if code == ALWAYS or code in self.extend:
            return True
        if self.select is None:
            return finding.severity is not Severity.INFO
        return code in self.select

    def _ignored_in(self, path: str, code: str) -> bool:
        for pattern, codes in self.per_file:
            if code in codes and (
                fnmatch(relpath(abspath(path), self.root), pattern)
                or fnmatch(basename(path), pattern)
            ):
                return True
        return False


def codes(words: Iterable[str], rules: "Iterable[Rule]") -> frozenset[str]:
    """Codes, names, prefixes such as GK2, or ALL, as a set of codes."""
    known = {rule.code: rule.name for rule in rules} | {ALWAYS: "unparsable"}
    found: set[str] = set()
    for word in words:
        for one in filter(None, (part.strip() for part in word.split(","))):
            upper = one.upper()
            matches = {
                code
                for code, name in known.items()
                if upper == "ALL" or one == name or (upper[:2] == "GK" and code.startswith(upper))
            }
            if not matches:
                raise UnknownCodeError(one)
            found |= matches
    return frozenset(found)
