"""A copy of the working folder for each run, so that no run finds what another one saved, and
nothing of the user's is touched.

Arguments that name a path are turned to the copy: those inside the folder, and absolute ones that
do not exist yet, which can only be meant for output. What a script writes into the folder itself
nevertheless, by an absolute path, is noted, to be removed before the next run.
"""

import contextlib
import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradkeeper.prove import ProveError

# Not read by a training script as data, or large and never written: linked, not copied.
LINKED = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "site-packages", ".tox"})
SKIPPED = frozenset({"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
LIMIT = 2 * 10**9


@dataclass(frozen=True)
class CopySource:
    """Where the command is run from; what of it may be linked, and what is ours."""

    roots: tuple[Path, ...]
    share: frozenset[Path]
    session: Path


@dataclass(frozen=True)
class WorkingCopy:
    folder: Path
    copies: dict[Path, Path]
    copied: frozenset[tuple[Path, int]]  # each file in it, and when it was last changed

    @property
    def cwd(self) -> Path:
        return next(iter(self.copies.values()))


def source_of(command: Sequence[str], cwd: Path, share: Sequence[str], session: Path) -> CopySource:
    """The working folder, and the script's own where that is elsewhere."""
    roots = [cwd]
    for word in command:
        path = Path(os.path.abspath(cwd / word))
        if path.suffix == ".py" and path.is_file() and not _is_in(path, roots):
            roots.append(path.parent)
            break
    linked = frozenset(Path(os.path.abspath(cwd / folder)) for folder in share)
    for path in linked:
        if not path.exists():
            raise ProveError(f"--share {path}: there is no such file or folder")
    source = CopySource(tuple(roots), linked, session)
    _refuse_what_is_too_large(source)
    return source


def build(source: CopySource, folder: Path) -> WorkingCopy:
    copies = {}
    for number, root in enumerate(source.roots):
        copies[root] = folder / f"{number}" / root.name
        try:
            _copy(root, copies[root], source)
        except (OSError, shutil.Error) as error:
            raise ProveError(f"{root} cannot be copied for a run of its own: {error}") from None
    return WorkingCopy(folder, copies, frozenset(_files(copies.values())))


def written_into(working_copy: WorkingCopy) -> list[str]:
    """What the runs have written into their copy and its outputs, the newest first."""
    places = [*working_copy.copies.values(), working_copy.folder / "outputs"]
    found = set(_files(places)) - working_copy.copied
    newest = sorted(found, key=lambda file: file[1], reverse=True)
    return [_name(path, places) for path, _ in newest]


def turned(word: str, working_copy: WorkingCopy) -> str:
    """An argument as this run gets it."""
    option, equals, path = word.rpartition("=") if word.startswith("-") else ("", "", word)
    if not os.path.isabs(path):
        return word
    for root, copy in working_copy.copies.items():
        if _is_in(Path(path), [root]):
            return f"{option}{equals}{copy / Path(os.path.normpath(path)).relative_to(root)}"
    if not os.path.lexists(path) and os.path.isdir(os.path.dirname(os.path.normpath(path))):
        fresh = working_copy.folder / "outputs" / os.path.normpath(path).lstrip(os.sep)
        fresh.parent.mkdir(parents=True, exist_ok=True)
        return f"{option}{equals}{fresh}"
    return word


def _is_in(path: Path, roots: Sequence[Path]) -> bool:
    normal = Path(os.path.normpath(path))
    return any(normal.is_relative_to(root) for root in roots)


def _files(places: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    for place in places:
        for here, folders, files in os.walk(place):
            folders[:] = [name for name in folders if name not in SKIPPED]
            for name in files:
                path = Path(here, name)
                # Another program that the command started may still be clearing up.
                with contextlib.suppress(FileNotFoundError):
                    yield path, path.lstat().st_mtime_ns


def _name(path: Path, places: Sequence[Path]) -> str:
    return str(next(path.relative_to(place) for place in places if path.is_relative_to(place)))


def _copy(root: Path, copy: Path, source: CopySource) -> None:
    for here, folders, files in os.walk(root):
        there = copy / Path(here).relative_to(root)
        there.mkdir(parents=True, exist_ok=True)
        for name in _linked(Path(here), folders, files, source):
            (there / name).symlink_to(Path(here, name).resolve())
        for name in files:
            path = Path(here, name)
            if path.is_symlink() or path.is_file():
                shutil.copy2(path, there / name, follow_symlinks=path.is_file())


def _linked(here: Path, folders: list[str], files: list[str], source: CopySource) -> Iterator[str]:
    """Names that are to be linked; with those to be skipped, they leave the lists to be walked."""
    for name in list(folders):
        path = here / name
        if name in SKIPPED or path == source.session:
            folders.remove(name)
        elif name in LINKED or path.is_symlink() or path in source.share:
            folders.remove(name)
            yield name
    for name in list(files):
        if here / name in source.share:
            files.remove(name)
            yield name


def _refuse_what_is_too_large(source: CopySource) -> None:
    total = 0
    for root in source.roots:
        for here, folders, files in os.walk(root):
            for _ in _linked(Path(here), folders, files, source):
                pass
            for name in files:
                path = Path(here, name)
                total += path.stat().st_size if path.is_file() else 0
            if total > LIMIT:
                raise ProveError(
                    f"{root} holds more than {LIMIT / 10**9:.0f} GB, and each run gets a copy of "
                    "it: name what the script only reads, to be linked instead: --share data"
                )


# Written into the folder that is only copied

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class StrayWrites:
    """Writes a line for each such file: its path, and whether it was there before."""

    def __init__(self, roots: list[str], log: Path) -> None:
        self._roots = tuple(os.path.join(root, "") for root in roots)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._seen: set[str] = set()
        self._here = True

    def tap(self) -> None:
        # For good: Python has no way to remove an audit hook.
        sys.addaudithook(self._hear)

    def leave(self) -> None:
        self._here = False

    def saving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """To be put in the place of `torch.save`."""

        @functools.wraps(original)
        def save(thing: Any, f: Any, *args: Any, **options: Any) -> Any:
            self._note(f)
            return original(thing, f, *args, **options)

        return save

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[2], int) and args[2] & WRITING:
            self._note(args[0])
        elif event == "os.rename":
            self._note(args[1])
        elif event == "os.mkdir":
            self._note(args[0])

    def _note(self, path: Any) -> None:
        if not self._here or not isinstance(path, str | os.PathLike):
            return
        whole = os.path.abspath(os.fsdecode(path))
        if whole in self._seen or not whole.startswith(self._roots):
            return
        self._seen.add(whole)
        if not (LINKED | SKIPPED).isdisjoint(Path(whole).parts):
            return
        line = json.dumps([whole, os.path.lexists(whole)])
        os.write(self._log, f"{line}\n".encode())


def written(folder: Path) -> dict[Path, bool]:
    """By all processes of a run: whether each was there before the first one wrote to it."""
    found: dict[Path, bool] = {}
    for log in sorted(folder.glob("outputs-*")):
        for line in log.read_text(encoding="utf-8").splitlines():
            path, existed = json.loads(line)
            found.setdefault(Path(path), existed)
    return found
