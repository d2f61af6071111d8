"""The open files, the projects they lie in, and what is said of them. Belongs to one thread."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gradkeeper.lint.config import Selections
from gradkeeper.lint.files import Sources
from gradkeeper.lint.fixes import mend
from gradkeeper.lint.incremental import Incremental
from gradkeeper.model.finding import Finding


@dataclass(slots=True)
class EditorSettings:
    """What the editor's settings ask for, beside those of pyproject.toml."""

    select: Sequence[str] = ()
    extend_select: Sequence[str] = ()
    ignore: Sequence[str] = ()

    def selections(self) -> Selections:
        """Read anew for each check: pyproject.toml may have changed."""
        return Selections(select=self.select, extend=self.extend_select, ignore=self.ignore)


@dataclass(slots=True)
class Projects:
    folders: Sequence[str] = ()
    """Of the workspace, absolute. A file outside of them is a project of its own."""
    settings: EditorSettings = field(default_factory=EditorSettings)
    _checks: dict[tuple[str, bool], Incremental] = field(default_factory=dict)

    def look_around(self) -> None:
        for check in self._checks.values():
            check.look_around()

    def check(self, held: Mapping[str, bytes]) -> dict[str, list[Finding]]:
        """What is said of each open file, and of those that import it.

        ConfigError or UnknownCodeError where settings ask for what cannot be.
        """
        selections = self.settings.selections()
        found: dict[str, list[Finding]] = {path: [] for path in held}
        for folder, paths in self._by_folder(held).items():
            check = self._checking(folder, held, fixes=False)
            for path, checked in check.check(paths).items():
                # Files that were only read along are told relative to the working directory.
                full = os.path.abspath(path)
                found[full] = [finding for finding in checked.findings if selections.wants(finding)]
        return found

    def with_fixes(self, path: str, held: Mapping[str, bytes]) -> list[Finding]:
        """What is said of one file, with fixes where there are any: each is tried first."""
        selections = self.settings.selections()
        check = self._checking(self._folder(path), held, fixes=True)
        findings = check.check([path])[path].findings
        return [finding for finding in findings if selections.wants(finding)]

    def mended(self, path: str, held: Mapping[str, bytes]) -> str | None:
        """The text of a file once all safe fixes are made; None where there is none to make."""

        def again(new: bytes) -> list[Finding]:
            return self.with_fixes(path, {**held, path: new})

        done = mend(self.read(path, held), self.with_fixes(path, held), again, unsafe=False)
        return done.new if done.fixed else None

    def read(self, path: str, held: Mapping[str, bytes]) -> bytes:
        try:
            return Sources(held).read(path)
        except OSError:
            return b""

    def _by_folder(self, paths: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in paths:
            found.setdefault(self._folder(path), []).append(path)
        return found

    def _folder(self, path: str) -> str:
        """The innermost folder of the workspace that holds a file; none for one outside."""
        around = [
            folder for folder in self.folders if path.startswith(folder.rstrip(os.sep) + os.sep)
        ]
        return max(around, key=len, default="")

    def _checking(self, folder: str, held: Mapping[str, bytes], *, fixes: bool) -> Incremental:
        check = self._checks.get((folder, fixes))
        if check is None:
            check = Incremental([folder] if folder else [], fixes=fixes)
            check.look_around()
            self._checks[folder, fixes] = check
        inside = {path: raw for path, raw in held.items() if self._folder(path) == folder}
        check.held = inside
        return check
