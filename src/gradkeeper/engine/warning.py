"""Warnings at the user's line, each once per line under Python's default filter."""

import warnings
from collections.abc import Mapping
from typing import Any

from gradkeeper.engine.errors import EngineWarning
from gradkeeper.model import Site

_told: dict[Any, int] = {}


def warn_of_versions(site: Site, saved: Mapping[str, str]) -> None:
    """Bits are promised for the same versions only."""
    import torch

    version = saved.get("torch", "")
    if version and version != torch.__version__:
        warn_at(
            site,
            f"the checkpoint was saved with torch {version}, and this is {torch.__version__}: "
            "the run goes on, but not bit for bit",
        )


def warn_at(site: Site, message: str) -> None:
    warnings.warn_explicit(message, EngineWarning, site.file, site.line, registry=_told)
