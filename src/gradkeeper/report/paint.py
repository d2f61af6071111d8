"""Colour for terminals, and where it is wanted."""

import os
from collections.abc import Mapping
from typing import TextIO

from gradkeeper.model import Severity

CHOICES = ("auto", "always", "never")
RED, GREEN, YELLOW, BLUE = 31, 32, 33, 34
TONES = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.INFO: BLUE}


class Paint:
    """Puts text into colour by the terminal's codes."""

    def by(self, severity: Severity, text: str) -> str:
        return self._in(f"1;{TONES[severity]}", text)

    def good(self, text: str) -> str:
        return self._in(f"1;{GREEN}", text)

    def bold(self, text: str) -> str:
        return self._in("1", text)

    def dim(self, text: str) -> str:
        return self._in("2", text)

    def _in(self, codes: str, text: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m"


class _Plain(Paint):
    def _in(self, codes: str, text: str) -> str:
        return text


PLAIN: Paint = _Plain()


def paint_for(
    stream: TextIO | None, choice: str = "auto", environment: Mapping[str, str] = os.environ
) -> Paint:
    """The paint for a stream; None is a file that no terminal shows."""
    return Paint() if _wanted(stream, choice, environment) else PLAIN


def _wanted(stream: TextIO | None, choice: str, environment: Mapping[str, str]) -> bool:
    """What was said on the command line, then NO_COLOR, then FORCE_COLOR, then what it is."""
    if choice != "auto":
        return choice == "always"
    if stream is None or environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return environment["FORCE_COLOR"] != "0"
    return stream.isatty() and environment.get("TERM") != "dumb"
