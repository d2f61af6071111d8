"""Settings of the project: [tool.gradkeeper] in the nearest pyproject.toml."""

import os
from typing import Any

KEYS = ("select", "ignore", "per-file-ignores")


class ConfigError(ValueError):
    """Settings that cannot be understood."""


def find(start: str = ".") -> tuple[dict[str, Any], str]:
    """The settings and the folder they hold for; empty where there are none."""
    here = os.path.abspath(start)
    while True:
        path = os.path.join(here, "pyproject.toml")
        if os.path.isfile(path):
            return _read(path), here
        parent = os.path.dirname(here)
        if parent == here:
            return {}, os.path.abspath(start)
        here = parent


def _read(path: str) -> dict[str, Any]:
    with open(path, "rb") as stream:
        raw = stream.read()
    if b"gradkeeper" not in raw:
        return {}  # tomllib takes longer to import than all else does
    import tomllib

    try:
        table = tomllib.loads(raw.decode("utf-8")).get("tool", {}).get("gradkeeper", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    unknown = [key for key in table if key not in KEYS]
    if unknown:
        known = ", ".join(KEYS)
        raise ConfigError(f"{path}: no setting {unknown[0]!r} in [tool.gradkeeper]; known: {known}")
    return dict(table)
