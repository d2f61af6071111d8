"""Settings of the project: [tool.gradkeeper] in the nearest pyproject.toml that has it."""

import os
from typing import Any

SECTION = "[tool.gradkeeper]"
KEYS = ("select", "ignore", "per-file-ignores")


class ConfigError(ValueError):
    """Settings that cannot be understood."""


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
