"""Warnings at the user's line, each once per line under Python's default filter."""

import warnings
from typing import Any

from gradkeeper.engine.errors import EngineWarning
from gradkeeper.model import Site

_told: dict[Any, int] = {}


def warn_at(site: Site, message: str) -> None:
    warnings.warn_explicit(message, EngineWarning, site.file, site.line, registry=_told)
