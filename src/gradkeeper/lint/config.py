"""Which rules speak: the command line's codes over the settings of each file's project.

Those are [tool.gradkeeper] in the nearest pyproject.toml that has it.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from gradkeeper.model.finding import Finding

if TYPE_CHECKING:
    from gradkeeper.model.rule import Rule

SECTION = "[tool.gradkeeper]"
KEYS = ("select", "ignore", "per-file-ignores")
ALWAYS = ("GK000", "GK001")
"""Told whatever is selected: a file that was not checked is not clean."""


class ConfigError(ValueError):
    """Settings that cannot be understood."""


class UnknownCodeError(ValueError):
    """A code that no rule has."""

    def __init__(self, word: str) -> None:
        super().__init__(f"no rule has the code or name {word!r}: `gradkeeper rules` lists them")


class Settings:
    """The settings of one pyproject.toml; those of no file at all are empty."""

    def __init__(self, path: str, table: dict[str, Any]) -> None:
        self.path = path
        self.root = os.path.dirname(path)
        unknown = [key for key in table if key not in KEYS]
        if unknown:
            known = ", ".join(KEYS)
            raise ConfigError(f"{path}: no setting {unknown[0]!r} in {SECTION}; known: {known}")
        self.select = self._codes("select", table.get("select", []))
        self.ignore = self._codes("ignore", table.get("ignore", []))
        per_file = table.get("per-file-ignores", {})
        if not isinstance(per_file, dict):
            raise ConfigError(
                f"{path}: `per-file-ignores` in {SECTION} must be a table of patterns and codes, "
                f'such as {{"old/*.py" = ["GK101"]}}, not {per_file!r}'
            )
        self.per_file = {
            pattern: self._codes(f"per-file-ignores.{pattern}", words)
            for pattern, words in per_file.items()
        }

    def _codes(self, key: str, given: object) -> list[str]:
        """One code as text, or a list of codes."""
        words = [given] if isinstance(given, str) else given
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return words
        raise ConfigError(
            f'{self.path}: `{key}` in {SECTION} must be a list of rules, such as ["GK101"], '
            f"not {given!r}"
        )


NOWHERE = Settings("", {})


class Finder:
    """Finds the settings for each file, and reads each pyproject.toml once."""

    def __init__(self) -> None:
        self._known: dict[str, Settings | None] = {}

    def settings_for(self, path: str) -> Settings:
        """Those of the file's own project; for a file of none, those of the working directory."""
        own = self._above(os.path.dirname(os.path.abspath(path)))
        return own or self._above(os.getcwd()) or NOWHERE

    def _above(self, folder: str) -> Settings | None:
        if folder not in self._known:
            parent = os.path.dirname(folder)
            found = _read(os.path.join(folder, "pyproject.toml"))
            if found is None and parent != folder:
                found = self._above(parent)
            self._known[folder] = found
        return self._known[folder]


def _read(path: str) -> Settings | None:
    try:
        with open(path, "rb") as stream:
            raw = stream.read()
    except OSError:  # most folders have none
        return None
    if b"gradkeeper" not in raw:
        return None  # tomllib takes longer to import than all else does
    import tomllib

    try:
        tools = tomllib.loads(raw.decode("utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(tools, dict) or "gradkeeper" not in tools:
        return None
    table = tools["gradkeeper"]
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {SECTION} must be a table of settings, not {table!r}")
    return Settings(path, table)


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
            return finding.counts
        return code in self.select

    def _ignored_in(self, path: str, code: str) -> bool:
        for pattern, codes in self.per_file:
            if code in codes and (
                fnmatch(os.path.relpath(os.path.abspath(path), self.root), pattern)
                or fnmatch(os.path.basename(path), pattern)
            ):
                return True
        return False


def codes(words: Iterable[str], rules: "Iterable[Rule]") -> frozenset[str]:
    """Codes, names, prefixes such as GK2, or ALL, as a set of codes."""
    known = {rule.code: rule.name for rule in rules}
    found: set[str] = set()
    for word in words:
        for asked in filter(None, (part.strip() for part in word.split(","))):
            upper = asked.upper()
            matches = {
                code
                for code, name in known.items()
                if upper == "ALL" or asked == name or (upper[:2] == "GK" and code.startswith(upper))
            }
            if not matches:
                raise UnknownCodeError(asked)
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
