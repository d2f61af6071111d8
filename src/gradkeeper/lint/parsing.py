"""From bytes to a syntax tree, or what is said of a file that gives none.

Valid source may need a later Python than the one that runs gradkeeper. To see whether that is why,
each newer construct is rewritten into something older, and the rest must then parse.
"""

import ast
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace

from gradkeeper.lint.files import decode
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.site import Site

LONGEST = 4_000_000
"""Bytes; what is larger is data in the shape of code."""
UNMADE_LINK = re.compile(rb"(?:\.\./|\./)?(?:[\w.+-]+/)+[\w.+-]+\.py")
"""Git writes a symbolic link as the path it leads to where links can't be made."""
TOO_DEEP = "it is nested too deeply"
Version = tuple[int, int]
RUNNING: Version = sys.version_info[:2]
ALIAS = r"(?m)^([ \t]*)type[ \t]+(\w+)[ \t]*(?:\[[^\]\n]*\])?[ \t]*="
GENERIC = r"\b((?:def|class)[ \t]+\w+)[ \t]*\[[^\n]*?\](?=[ \t]*[(:])"
BARE_EXCEPT = r"\b(except\*?)[ \t]+([^(:\n][^:\n]*,[^:\n]*):"
TEMPLATE = r"\b(?:[tT][rR]?|[rR][tT])(?=['\"])"
F_STRING = r"\b(?:[fF][rR]?|[rR][fF])('''|\"\"\"|'|\")"


def parse(raw: bytes, path: str) -> ast.Module | Finding:
    if len(raw) > LONGEST:
        return not_checked(path, f"it is larger than {LONGEST // 10**6} MB")
    if UNMADE_LINK.fullmatch(raw):
        return ast.Module([], [])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(raw, path)
    except (SyntaxError, ValueError) as error:
        return unparsable(error, path, decode(raw)[0])
    except (RecursionError, MemoryError):  # the parser says the latter of the former
        return not_checked(path, TOO_DEEP)


def unparsable(error: Exception, path: str, text: str = "") -> Finding:
    """What is said of a text that this Python cannot read; a later one may be able to."""
    line = getattr(error, "lineno", None) or 1
    column = getattr(error, "offset", None) or 1
    why = getattr(error, "msg", None) or str(error) or type(error).__name__
    found = Finding(
        rule="GK000",
        name="unparsable",
        severity=Severity.ERROR,
        site=Site(path, max(1, line), max(1, column)),
        message=f"cannot be read as Python: {why}",
        detail="nothing in this file was checked",
        remedy="mend the syntax, or leave the file out",
    )
    if "\0" in text:
        return replace(
            found,
            message="cannot be read as Python: it holds null bytes, as binary files and UTF-16 do",
            remedy="save it as UTF-8, or leave the file out",
        )
    version = needed(text)
    if version is None:
        return found
    newer = "{}.{}".format(*version)
    return replace(
        found,
        severity=Severity.WARNING,
        message="needs Python {} to be read; gradkeeper runs on {}.{} here".format(newer, *RUNNING),
        remedy=f"run gradkeeper with Python {newer} or newer",
    )


def not_checked(path: str, why: str, *, site: Site | None = None, detail: str = "") -> Finding:
    return Finding(
        rule="GK001",
        name="not-checked",
        severity=Severity.WARNING,
        site=site or Site(path, 1),
        message=f"could not be checked to the end: {why}",
        detail=detail or "silence about this file means nothing",
        remedy="read it yourself, or --ignore GK001 to accept that",
    )


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
    strings = re.compile(F_STRING)
    parts = []
    place = 0
    while found := strings.search(text, place):
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
    ((3, 12), lambda text: re.sub(ALIAS, r"\1\2 =", text)),
    ((3, 12), lambda text: re.sub(GENERIC, r"\1", text)),
    ((3, 14), lambda text: re.sub(TEMPLATE, "f", text)),
    ((3, 14), lambda text: re.sub(BARE_EXCEPT, r"\1 (\2):", text)),
)
"""The first version that knows a construct, and the text without it."""
