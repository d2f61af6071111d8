"""A project that is checked again and again, as in an editor: only what has changed is rehearsed.

Files may be held: then what counts is the text handed in, not what is on disk. What was said of a
program is kept with the digest of every file that its rehearsal read, and said again while all of
them are the same.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from gradkeeper.lint.check import check_notebook, check_program, guarded
from gradkeeper.lint.files import Sources, find
from gradkeeper.lint.parsing import parse, unparsable
from gradkeeper.lint.program import Checked, ProgramFiles, Sketch, programs, sketch
from gradkeeper.model.finding import Finding

MOST_FILES = 20_000
"""In a folder with more, only the files that are asked for are looked at, and what they import."""

Stamp = tuple[int, int]
ContentHash = bytes | None
"""None: the file cannot be read."""


@dataclass(slots=True)
class _Verdict:
    """What was said, and what it was said of."""

    reads: dict[str, ContentHash]
    said: dict[str, Checked]


@dataclass(slots=True)
class _Known:
    """What a glance at a file's bytes told."""

    digest: ContentHash
    sketch: Sketch | None
    alone: Checked | None = None
    """What is said of it by itself, where it is part of no program."""


class _Reading(Sources):
    """Notes what is read."""

    def __init__(self, held: dict[str, bytes]) -> None:
        super().__init__(held)
        self.reads: dict[str, ContentHash] = {}

    def read(self, path: str) -> bytes:
        full = os.path.abspath(path)
        self.reads.setdefault(full, None)
        raw = super().read(path)
        self.reads[full] = digest_of(raw)
        return raw


@dataclass(slots=True)
class Incremental:
    """The folders of a project, and the files of it that are held.

    Paths are absolute, or all relative to the working directory, where nothing is held.
    """

    folders: Sequence[str]
    fixes: bool = False
    """Whether fixes are looked for: that takes a rehearsal each."""
    held: dict[str, bytes] = field(default_factory=dict)
    """By path."""
    rehearsed: int = 0
    """Programs that were rehearsed so far."""
    _paths: list[str] = field(default_factory=list)
    _stamps: dict[str, tuple[Stamp, ContentHash]] = field(default_factory=dict)
    _known: dict[str, _Known] = field(default_factory=dict)
    _sketches: list[Sketch] = field(default_factory=list)
    """Of all files: as long as they are the same, so are the programs."""
    _programs: list[ProgramFiles] = field(default_factory=list)
    _said: dict[tuple[str, ...], _Verdict] = field(default_factory=dict)

    def look_around(self) -> None:
        """Lists the files anew. A new file may be what an import leads to."""
        found: list[str] = []
        for path in find(self.folders):
            found.append(path)
            if len(found) > MOST_FILES:
                found = []
                break
        if found != self._paths:
            self._said.clear()
        self._paths = found

    def check(
        self, wanted: Iterable[str] | None = None, *, seen: Callable[[], None] = lambda: None
    ) -> dict[str, Checked]:
        """What is said of each of these files and of those that import them, or of all.

        `seen` is called after each program. Never raises.
        """
        asked = None if wanted is None else set(wanted)
        paths = list(dict.fromkeys((*self._paths, *self.held, *(asked or ()))))
        results: dict[str, Checked] = {}
        for whole in self._divided(paths):
            program = whole if asked is None else concerning(asked, whole)
            if program.paths:
                results |= self._of_program(program)
                seen()
        for path in paths if asked is None else sorted(asked):
            if path not in results:
                results[path] = self._alone(path)
        return results

    def _divided(self, paths: list[str]) -> list[ProgramFiles]:
        """The programs of the project; the same as before unless an import or a loop came in."""
        glances = (self._glance(path).sketch for path in paths)
        sketches = [glance for glance in glances if glance is not None]
        if sketches != self._sketches:
            self._programs = programs(sketches, Sources(self.held))
            self._sketches = sketches
        return self._programs

    def _glance(self, path: str) -> _Known:
        digest = self._digest(path)
        known = self._known.get(path)
        if known is None or known.digest != digest:
            raw = self._read(path)
            known = _Known(digest, None if raw is None else sketch(path, raw))
            self._known[path] = known
        return known

    def _of_program(self, program: ProgramFiles) -> dict[str, Checked]:
        key = tuple(program.paths)
        kept = self._said.get(key)
        if kept is None or any(self._digest(path) != old for path, old in kept.reads.items()):
            self.rehearsed += 1
            sources = _Reading(self.held)
            said = check_program(program, fixes=self.fixes, sources=sources)
            kept = self._said[key] = _Verdict(sources.reads, said)
        return kept.said

    def _alone(self, path: str) -> Checked:
        """A file that does not train, a notebook, or one that cannot be read."""
        known = self._glance(path)
        if known.alone is None:
            known.alone = guarded(path, lambda: self._by_itself(path))
        return known.alone

    def _by_itself(self, path: str) -> Checked:
        raw = self._read(path)
        if raw is None:
            return Checked([unparsable(ValueError("it cannot be opened"), path)])
        if path.endswith(".ipynb"):
            return check_notebook(raw, path, fixes=self.fixes)
        tree = parse(raw, path)
        return Checked([tree] if isinstance(tree, Finding) else [])

    def _digest(self, path: str) -> ContentHash:
        if path in self.held:
            return digest_of(self.held[path])
        try:
            stat = os.stat(path)
        except OSError:
            return None
        stamp = (stat.st_mtime_ns, stat.st_size)
        before = self._stamps.get(path)
        if before is None or before[0] != stamp:
            raw = self._read(path)
            before = self._stamps[path] = (stamp, None if raw is None else digest_of(raw))
        return before[1]

    def _read(self, path: str) -> bytes | None:
        try:
            return Sources(self.held).read(path)
        except OSError:
            return None


def concerning(asked: set[str], whole: ProgramFiles) -> ProgramFiles:
    """Of a program, the files that are asked for, and those that import them: their callers."""
    wanted = {file for path in whole.paths if path in asked for file in whole.affected_by(path)}
    return replace(whole, paths=[path for path in whole.paths if path in wanted])


def digest_of(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=16).digest()
