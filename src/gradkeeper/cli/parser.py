"""The command line's parser: help as wide as the terminal, and what it says of wrong words."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from gradkeeper.cli.streams import complain

MEANT = {"watch": ("run", "check --watch"), "lint": ("check",)}
"""What people call a command that has another name here."""


class Help(argparse.HelpFormatter):
    """As wide as the terminal. One is made for each option, and the parser's own way to ask for
    the width loads every kind of archive there is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


class Parser(argparse.ArgumentParser):
    """What is wrong comes first, then how the command is used, a line each; exit code 2."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": Help, **options})

    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().split())
        complain(f"{self.prog}: {message}\n{usage}    ({self.prog} --help tells more)")
        raise SystemExit(2)

    def no_such_option(self, words: Sequence[str]) -> NoReturn:
        """Of words that nothing here takes: options, or more of others than are wanted."""
        word = next((word for word in words if word.startswith("-")), None)
        if word is None:
            self.error(f"too many words: {' '.join(words)}")
        name = word.partition("=")[0]
        self.error(f"there is no option {name}{did_you_mean(near(name, self.option_words()))}")

    def option_words(self) -> list[str]:
        return [word for action in self._actions for word in action.option_strings]


def no_such_command(parser: Parser, word: str, commands: Sequence[str]) -> NoReturn:
    if word.startswith("-"):
        parser.no_such_option([word])
    meant = MEANT.get(word) or near(word, commands)
    if not meant and os.path.exists(word):
        meant = [f"check {word}"]
    told = did_you_mean(f"{parser.prog} {command}" for command in meant)
    parser.error(f"there is no command {word}{told}")


def did_you_mean(words: Iterable[str]) -> str:
    said = " or ".join(words)
    return f"; did you mean {said}?" if said else ""


def near(word: str, words: Iterable[str]) -> list[str]:
    """The one that was probably meant, if any."""
    from difflib import get_close_matches

    return get_close_matches(word, list(words), n=1, cutoff=0.7)


def _columns() -> int:
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80
