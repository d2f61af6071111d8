"""Which rules speak: the command line's codes over the settings of each file's project."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from os.path import abspath, basename, relpath
from typing import TYPE_CHECKING

from gradkeeper.lint.config import ConfigError, Finder, Settings
from gradkeeper.model.finding import Finding, Severity

if TYPE_CHECKING:
    from gradkeeper.model.rule import Rule

ALWAYS = ("GK000", "GK001")
"""Told whatever is selected: a file that was not checked is not clean."""


class UnknownCodeError(ValueError):
    """A code that no rule has."""

    def __init__(self, word: str) -> None:
        super().__init__(f"no rule has the code or name {word!r}: `gradkeeper rules` lists them")


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
        if code in ALWAYS or code in self.extend:
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
    known = {rule.code: rule.name for rule in rules}
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


class Selections:
    """What is wanted of each file."""

    def __init__(
        self,
        *,
        select: Iterable[str] = (),
        extend: Iterable[str] = (),
        ignore: Iterable[str] = (),
    ) -> None:
        """The command line's own words. UnknownCodeError if one is no code."""
        self._select = _known(select)
        self._extend = _known(extend)
        self._ignore = _known(ignore)
        self._finder = Finder()
        self._made: dict[str, Selection] = {}

    def wants(self, finding: Finding) -> bool:
        return self.of(finding.site.file).wants(finding)

    def of(self, path: str) -> Selection:
        """ConfigError if the file's project asks for what cannot be."""
        settings = self._finder.settings_for(path)
        if settings.path not in self._made:
            self._made[settings.path] = self._make(settings)
        return self._made[settings.path]

    def _make(self, settings: Settings) -> Selection:
        try:
            return Selection(
                select=self._select or _known(settings.select) or None,
                extend=self._extend,
                ignore=self._ignore | _known(settings.ignore),
                per_file=[(name, _known(words)) for name, words in settings.per_file.items()],
                root=settings.root or ".",
            )
        except UnknownCodeError as error:
            raise ConfigError(f"{settings.path}: {error}") from None


def _known(words: Iterable[str]) -> frozenset[str]:
    wanted = list(words)
    if not wanted:
        return frozenset()
    from gradkeeper.rules import ALL

    return codes(wanted, ALL)
