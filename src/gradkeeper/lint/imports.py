"""The files of a program: which module of the project a name stands for, each parsed once."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING

from gradkeeper.lint.files import DISK, Sources
from gradkeeper.lint.interpreter.facts import Facts
from gradkeeper.lint.interpreter.objects import Namespace

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

LARGEST = 400_000
"""Bytes of a module that is read along."""
MOST_FILES = 200


class Project:
    """The files that are checked together, what they import, and the facts about all of them."""

    def __init__(self, files: Mapping[str, ast.Module], sources: Sources | None = DISK) -> None:
        self._sources = sources
        """What other files hold; None where they are out of reach."""
        self.files = dict(files)
        """Those to check, by the path under which they are spoken of."""
        self.facts = Facts()
        self.trees: dict[str, ast.Module | None] = {}
        self.imported: set[str] = set()
        """Paths that another file of the program imports."""
        self._shown: dict[str, str] = {}
        for path, tree in self.files.items():
            full = os.path.abspath(path)
            self.trees[full] = tree
            self._shown[full] = path
        self._found: dict[tuple[str, int, str], str | None] = {}
        self._read_along()

    def _read_along(self) -> None:
        """Reads what the files import from their own project, to any depth."""
        entries = [(tree, path) for path, tree in self.files.items()]
        waiting = list(entries)
        while waiting:
            tree, file = waiting.pop()
            for name, level in _imported(tree):
                found = self._locate(name, level, file)
                if found is None:
                    continue
                self.imported.add(self.shown(found))
                if found in self.trees:
                    continue
                more = self._tree(found)
                if more is not None:
                    entry = (more, self.shown(found))
                    entries.append(entry)
                    waiting.append(entry)
        self.facts.add(entries)

    def shown(self, full: str) -> str:
        """How a file is spoken of."""
        return self._shown.setdefault(full, os.path.relpath(full))

    def module(self, m: Machine, name: str, level: int, file: str) -> Namespace | None:
        """Runs a module of the project, once per run."""
        loaded = m.state(Loaded)
        path = self._locate(name, level, file)
        if path is None:
            return None
        known = loaded.modules.get(path)
        if known is not None:
            return known
        tree = self._tree(path)
        if tree is None:
            return None
        made = loaded.modules[path] = Namespace(name, {}, lambda _: None)
        before = (m.loops, m.node)
        try:
            made.names = m.run_module(tree, self.shown(path), name).names
        finally:
            m.loops, m.node = before
        return made

    def _tree(self, path: str) -> ast.Module | None:
        if path not in self.trees:
            few = len(self.trees) < MOST_FILES
            self.trees[path] = _parse(path, self._sources) if few and self._sources else None
        return self.trees[path]

    def _locate(self, name: str, level: int, file: str) -> str | None:
        key = (name, level, file)
        if key not in self._found:
            reachable = self._sources is not None or len(self.files) > 1
            self._found[key] = (
                _search(name, level, os.path.abspath(file), self.trees) if reachable else None
            )
        return self._found[key]


class Loaded:
    """The modules that a run has executed so far."""

    def __init__(self) -> None:
        self.modules: dict[str, Namespace] = {}


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The modules that a file names in imports, wherever they stand."""
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            inside = getattr(node, part, None)
            if isinstance(inside, list):
                stack.extend(inside)
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.name, 0
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level
            for one in node.names:
                yield f"{node.module}.{one.name}" if node.module else one.name, node.level


def _search(name: str, level: int, file: str, known: Container[str]) -> str | None:
    parts = name.split(".") if name else []
    folder = os.path.dirname(file)
    if level:
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        return _in_folder(folder, parts, known)
    for _ in range(6):
        found = _in_folder(folder, parts, known)
        if found is not None and found != file:
            return found
        above = os.path.dirname(folder)
        if above == folder or _is_root(folder):
            return None
        folder = above
    return None


def _is_root(folder: str) -> bool:
    marks = (".git", "pyproject.toml", "setup.py", "setup.cfg")
    return any(os.path.exists(os.path.join(folder, mark)) for mark in marks)


def _in_folder(folder: str, parts: list[str], known: Container[str]) -> str | None:
    path = os.path.join(folder, *parts)
    for candidate in (f"{path}.py", os.path.join(path, "__init__.py")):
        if candidate in known or os.path.isfile(candidate):
            return candidate
    return None


def _parse(path: str, sources: Sources) -> ast.Module | None:
    try:
        raw = sources.read(path)
        if len(raw) > LARGEST:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(raw, path)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
