"""Syntax that a later Python has than the one that runs gradkeeper: valid, and not to be read here.

Each construct is rewritten into something older, only to see whether the rest then parses.
"""

import ast
import re
import sys
import warnings
from collections.abc import Callable

Version = tuple[int, int]
RUNNING: Version = sys.version_info[:2]
ALIAS = re.compile(r"^([ \t]*)type[ \t]+(\w+)[ \t]*(?:\[[^\]\n]*\])?[ \t]*=", re.M)
GENERIC = re.compile(r"\b((?:def|class)[ \t]+\w+)[ \t]*\[[^\n]*?\](?=[ \t]*[(:])")
BARE_EXCEPT = re.compile(r"\b(except\*?)[ \t]+([^(:\n][^:\n]*,[^:\n]*):")
TEMPLATE = re.compile(r"\b(?:[tT][rR]?|[rR][tT])(?=['\"])")
F_STRING = re.compile(r"\b(?:[fF][rR]?|[rR][fF])('''|\"\"\"|'|\")")


def needed(text: str, *, running: Version = RUNNING) -> Version | None:
    """The Python that can read what this one cannot; None if it is no matter of versions."""
    tried: list[Version] = []
    for version, older in CONSTRUCTS:
        rewritten = older(text) if version > running else text
        if rewritten != text:
            tried.append(version)
            text = rewritten
    return max(tried) if tried and _parses(text) else None


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _without_f_strings(text: str) -> str:
    """Since 3.12 their braces may hold anything, quotes of the string's own kind included."""
    parts = []
    place = 0
    while found := F_STRING.search(text, place):
        end = _end_of(text, found.end(), found.group(1))
        if end is None:
            break
        parts += [text[place : found.start()], "''"]
        place = end
    return "".join([*parts, text[place:]])


def _end_of(text: str, place: int, quote: str) -> int | None:
    """Where an f-string ends whose first character stands at `place`, if it does."""
    depth = 0
    while place < len(text):
        if text[place] == "\\" and not depth:
            place += 1
        elif text.startswith(quote, place) and not depth:
            return place + len(quote)
        elif text[place] in "'\"":
            closing = text.find(text[place], place + 1)
            place = closing if closing > 0 else place
        elif text[place] in "{}":
            depth += 1 if text[place] == "{" else -1
        place += 1
    return None


CONSTRUCTS: tuple[tuple[Version, Callable[[str], str]], ...] = (
    ((3, 12), _without_f_strings),
    ((3, 12), lambda text: ALIAS.sub(r"\1\2 =", text)),
    ((3, 12), lambda text: GENERIC.sub(r"\1", text)),
    ((3, 14), lambda text: TEMPLATE.sub("f", text)),
    ((3, 14), lambda text: BARE_EXCEPT.sub(r"\1 (\2):", text)),
)
"""The first version that knows a construct, and the text without it."""
