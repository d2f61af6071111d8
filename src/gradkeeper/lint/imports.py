"""The files of a program: which module of the project a name stands for, each parsed once."""

from __future__ import annotations

import ast
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gradkeeper.lint.files import DISK, Sources
from gradkeeper.lint.interpreter.facts import Facts
from gradkeeper.lint.interpreter.frames import Outline, OwnModule
from gradkeeper.lint.program import INIT, folder_above, imports_in, takes_part

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

LARGEST = 400_000
"""Bytes of a module that is read along."""
FEW = 40
"""Modules of a project that are read along, whatever they hold; of more, those that may matter."""
MOST = 12


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
        self._checked = tuple(self.trees)
        self._found: dict[tuple[str, int, str], str | None] = {}
        self._listed: dict[str, set[str]] = {}
        self._outlines: dict[str, Outline] = {}
        self.may_train = True
        """Something in the files has to do with training; else there is nothing to rehearse."""
        self._read_along()

    def _read_along(self) -> None:
        """Reads what the files import from their own project, to any depth, the nearest first."""
        self.facts.add((tree, path) for path, tree in self.files.items())
        self.may_train = self.facts.speak_of_training()
        if not self.may_train:
            return
        direct: dict[str, None] = {}
        for path in self.files:
            direct.update(self._imports_of(path, _imported(self.facts.imports[path])))
        near = self._reached(direct, FEW + 1, matters=lambda raw: True)
        if len(near) > FEW:
            near = self._reached(direct, MOST, matters=takes_part)
        for path, raw in near.items():
            more = self.trees[path] = _parse(raw, path)
            if more is not None:
                shown = self.shown(path)
                self.facts.add([(more, shown)])
                self._imports_of(path, _imported(self.facts.imports[shown]))
        self.facts.survey()

    def _imports_of(self, file: str, named: Iterable[tuple[str, int]]) -> dict[str, None]:
        """The files of the project that one of them imports."""
        located = (self._locate(name, level, file) for name, level in named)
        found = dict.fromkeys(path for path in located if path is not None)
        self.imported.update(map(self.shown, found))
        return found

    def _reached(
        self, waiting: Iterable[str], most: int, *, matters: Callable[[bytes], bool]
    ) -> dict[str, bytes]:
        """Files beside those to check that imports lead to, by way of files that matter."""
        found: dict[str, bytes] = {}
        seen = set(self.trees)
        queue = deque(waiting)
        while queue and sum(not path.endswith(INIT) for path in found) < most:
            path = queue.popleft()
            raw = None if path in seen else self._read(path)
            seen.add(path)
            if raw is not None and (matters(raw) or _hands_on(path, found)):
                found[path] = raw
                queue.extend(self._imports_of(path, _named(imports_in(raw))))
        return found

    def _read(self, path: str) -> bytes | None:
        if self._sources is None:
            return None
        try:
            raw = self._sources.read(path)
        except OSError:
            return None
        return raw if len(raw) <= LARGEST else None

    def shown(self, full: str) -> str:
        """How a file is spoken of."""
        return self._shown.setdefault(full, os.path.relpath(full))

    def module(self, m: Machine, name: str, level: int, file: str) -> OwnModule | None:
        """A module of the project, one in each run."""
        loaded = m.state(LoadedModules)
        path = self._locate(name, level, file)
        if path is None:
            return None
        known = loaded.modules.get(path)
        if known is not None:
            return known
        tree = self.trees.get(path)
        if tree is None:
            return None
        outline = self._outlines.get(path)
        if outline is None:
            outline = self._outlines[path] = Outline(tree)
        frame = m.module_frame(self.shown(path), name)
        made = loaded.modules[path] = OwnModule(m, name, frame, outline)
        return made

    def _locate(self, name: str, level: int, file: str) -> str | None:
        key = (name, level, file)
        if key not in self._found:
            reachable = self._sources is not None or len(self.files) > 1
            self._found[key] = (
                self._search(name, level, os.path.abspath(file)) if reachable else None
            )
        return self._found[key]

    def _search(self, name: str, level: int, file: str) -> str | None:
        parts = name.split(".") if name else []
        folder = os.path.dirname(file)
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            return self._in_folder(folder, parts)
        for _ in range(6):
            found = self._in_folder(folder, parts)
            if found is not None and found != file:
                return found
            above = folder_above(folder, self._names_in(folder), name)
            if above is None:
                return None
            folder = above
        return None

    def _in_folder(self, folder: str, parts: list[str]) -> str | None:
        if parts:
            names = self._names_in(folder)
            if parts[0] not in names and f"{parts[0]}.py" not in names:
                return None  # nearly always: the module is no part of the project
        path = os.path.join(folder, *parts)
        for candidate in (f"{path}.py", os.path.join(path, INIT)):
            if candidate in self.trees or os.path.isfile(candidate):
                return candidate
        return None

    def _names_in(self, folder: str) -> set[str]:
        """What lies in a folder, which is looked into once; the files to check need not exist."""
        found = self._listed.get(folder)
        if found is None:
            try:
                found = set(os.listdir(folder))
            except OSError:
                found = set()
            inside = os.path.join(folder, "")
            found.update(
                path[len(inside) :].partition(os.sep)[0]
                for path in self._checked
                if path.startswith(inside)
            )
            self._listed[folder] = found
        return found


def _hands_on(path: str, found: Iterable[str]) -> bool:
    """A package as such: others ask it for its modules. Of these, too, there may be many."""
    return path.endswith(INIT) and sum(other.endswith(INIT) for other in found) < FEW


class LoadedModules:
    """The modules that a run has come to so far."""

    def __init__(self) -> None:
        self.modules: dict[str, OwnModule] = {}


def _imported(
    statements: Iterable[ast.Import | ast.ImportFrom],
) -> Iterator[tuple[str, int]]:
    """The modules that statements name."""
    for node in statements:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0
        else:
            yield node.module or "", node.level
            for alias in node.names:
                yield f"{node.module}.{alias.name}" if node.module else alias.name, node.level


def _named(imports: Iterable[tuple[int, str, str]]) -> Iterator[tuple[str, int]]:
    for level, module, name in imports:
        yield module, level
        if name:
            yield f"{module}.{name}" if module else name, level


def _parse(raw: bytes, path: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(raw, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
