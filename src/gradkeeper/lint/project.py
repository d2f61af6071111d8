"""Other files of the same project, followed where a training file imports them."""

import ast
import os

from gradkeeper.lint.files import DISK, Sources
from gradkeeper.lint.survey import survey
from gradkeeper.lint.values import Frame, Value
from gradkeeper.lint.vocabulary import TRAINING

MOST_FILES = 6
MOST_BYTES = 200_000


class Project:
    """Finds modules beside a file and above it. Only those that train themselves are followed."""

    def __init__(self, path: str, sources: Sources = DISK) -> None:
        self.sources = sources
        self.folder = os.path.dirname(os.path.abspath(path))
        self.trees: dict[str, ast.Module | None] = {}
        self._surveys: dict[str, Value] = {}

    def load(self, r: Value, module: str, level: int) -> Frame | None:
        """The module's variables, rehearsed once per run; None if it is not ours or not loud."""
        path = self._find(module, level)
        if path is None:
            return None
        if path in r.modules:
            found: Frame | None = r.modules[path]
            return found
        tree = self._tree(path)
        if tree is None:
            return None
        frame = Frame({}, None, None, "<module>", self._surveys[path], path)
        frame.names["__name__"] = module
        r.modules[path] = frame
        self._fill(r, frame, tree)
        return frame

    def loud_names(self, tree: ast.Module) -> frozenset[str]:
        """Functions of the files that a tree imports, as far as they touch gradients."""
        found: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                path = self._find(node.module or "", node.level)
                if path is not None and self._tree(path) is not None:
                    survey = self._surveys[path]
                    found |= {one.name for one in survey.order if one in survey.loud}
        return frozenset(found - {"__init__", "forward"})

    def _fill(self, r: Value, frame: Frame, tree: ast.Module) -> None:
        from gradkeeper.lint.statements import block

        before, project = r.frame, r.project
        r.frame, r.project = frame, None
        wanted = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign)
        try:
            block(r, [one for one in tree.body if isinstance(one, wanted)])
        finally:
            r.frame, r.project = before, project

    def _find(self, module: str, level: int) -> str | None:
        parts = module.split(".") if module else []
        folders = [self.folder]
        for _ in range(max(0, level - 1)):
            folders = [os.path.dirname(folders[0])]
        if level == 0:
            folders.append(os.path.dirname(self.folder))
        for folder in folders:
            path = os.path.join(folder, *parts)
            for one in (f"{path}.py", os.path.join(path, "__init__.py")):
                if parts and os.path.isfile(one):
                    return os.path.relpath(one)
        return None

    def _tree(self, path: str) -> ast.Module | None:
        if path in self.trees:
            return self.trees[path]
        tree: ast.Module | None = None
        if len(self.trees) < MOST_FILES:
            try:
                raw = self.sources.read(path)
                if len(raw) <= MOST_BYTES and TRAINING.search(raw):
                    tree = ast.parse(raw, path)
                    self._surveys[path] = survey(tree)
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                tree = None
        self.trees[path] = tree
        return tree
