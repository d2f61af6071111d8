"""Which files to check, named or below folders that are, and what their bytes say as text."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate

ENDINGS = (".py", ".ipynb")
FOLDERS = """
    .git .hg .svn .venv venv env __pycache__ node_modules build dist .tox .nox .eggs .mypy_cache
    .ruff_cache .pytest_cache .ipynb_checkpoints site-packages .direnv __pypackages__ .bzr
"""
EXCLUDED = frozenset(FOLDERS.split())


def find(paths: Iterable[str]) -> Iterator[str]:
    """Files in order, each once. A file that is named is taken whatever its name."""
    seen: set[str] = set()
    for path in map(os.path.normpath, paths):
        found = _below(path) if os.path.isdir(path) else iter((path,))
        for candidate in found:
            if candidate not in seen:
                seen.add(candidate)
                yield candidate


def _below(folder: str) -> Iterator[str]:
    waiting = [(folder, Ignore.above(folder))]
    while waiting:
        here, ignored = waiting.pop()
        ignored = ignored.with_file(here)
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError:
            continue
        covers = ignored.within(here)
        folders = []
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and entry.name in EXCLUDED:
                continue
            if not is_folder and not _is_source(entry.name):
                continue
            if covers(entry.name, is_folder):
                continue
            path = entry.name if here == os.curdir else entry.path
            if is_folder:
                folders.append((path, ignored))
            elif entry.is_file(follow_symlinks=False) or os.path.isfile(path):
                # A loop of links is an error to entry.is_file(), as it is not to os.path.isfile().
                yield path
        waiting.extend(reversed(folders))


def _is_source(name: str) -> bool:
    """Not what macOS leaves beside a file when it is copied elsewhere: `._train.py` is no text."""
    return name.endswith(ENDINGS) and not name.startswith("._")


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a .gitignore file."""

    base: str
    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool


class Ignore:
    """The .gitignore files that apply in a folder; a later line overrules an earlier one."""

    def __init__(self, lines: tuple[_Line, ...] = ()) -> None:
        self._lines = lines

    @classmethod
    def above(cls, folder: str) -> "Ignore":
        """Those of the folders above, up to the repository's root."""
        chain = []
        here = os.path.abspath(folder)
        while not os.path.exists(os.path.join(here, ".git")):
            parent = os.path.dirname(here)
            if parent == here:
                return cls()
            chain.append(parent)
            here = parent
        found = cls()
        for file in reversed(chain):
            found = found.with_file(file)
        return found

    def with_file(self, folder: str) -> "Ignore":
        try:
            with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            return self
        base = os.path.abspath(folder)
        lines = [_pattern(base, line) for line in text.splitlines()]
        return Ignore((*self._lines, *(line for line in lines if line)))

    def within(self, folder: str) -> Callable[[str, bool], bool]:
        """Whether a name in a folder is covered, given whether it is a folder's."""
        full = os.path.abspath(folder)
        places = {base: _relative(full, base) for base in {line.base for line in self._lines}}
        latest_first = [
            (line, places[line.base])
            for line in reversed(self._lines)
            if not places[line.base].startswith("../")
        ]

        def covers(name: str, is_folder: bool) -> bool:
            for line, place in latest_first:
                if (is_folder or not line.folders_only) and line.pattern.match(f"{place}{name}"):
                    return not line.negated
            return False

        return covers


def _relative(folder: str, base: str) -> str:
    """What stands before a name in a folder, seen from a .gitignore file's."""
    relative = os.path.relpath(folder, base).replace(os.sep, "/")
    return "" if relative == "." else f"{relative}/"


def _pattern(base: str, line: str) -> _Line | None:
    line = line.rstrip()
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line.removeprefix("!")
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    anchored = "/" in line
    line = line.removeprefix("/")
    parts = [
        translate(part).removesuffix(r"\Z") if part != "**" else ".*" for part in line.split("/")
    ]
    # translate() lets * cross a slash; one segment at a time, it must not.
    parts = [part.replace(".*", "[^/]*") if part != ".*" else part for part in parts]
    body = "/".join(parts).replace(".*/", "(?:.*/)?")
    start = "" if anchored else "(?:.*/)?"
    return _Line(base, re.compile(f"{start}{body}$"), negated, folders_only)


class Sources:
    """What files hold: what is on disk, but for those that a fix would change."""

    def __init__(self, changed: Mapping[str, bytes] | None = None) -> None:
        self._changed = {os.path.abspath(path): raw for path, raw in (changed or {}).items()}

    def changed(self, path: str, raw: bytes) -> "Sources":
        """The same, but for one file."""
        return Sources({**self._changed, path: raw})

    def read(self, path: str) -> bytes:
        """OSError if it cannot be."""
        if self._changed:
            changed = self._changed.get(os.path.abspath(path))
            if changed is not None:
                return changed
        with open(path, "rb") as stream:
            return stream.read()


DISK = Sources()
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""str.splitlines would also break at form feeds and at U+2028, where Python goes on."""


def lines_of(text: str) -> list[str]:
    """The lines with their ends."""
    return LINE.findall(text)


def decode(raw: bytes) -> tuple[str, str]:
    """The text and its encoding, as its first lines declare it; UTF-8 where they can't be read."""
    import io
    import tokenize

    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        return raw.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError):
        return raw.decode("utf-8", "replace"), "utf-8"
