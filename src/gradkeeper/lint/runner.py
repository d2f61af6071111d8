"""Many files: read, scanned, checked, on as many cores as there are."""

import gc
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gradkeeper.lint.check import Checked, check_source, guarded, not_checked, parse, unparsable
from gradkeeper.lint.vocabulary import may_train
from gradkeeper.model.finding import Finding

if TYPE_CHECKING:
    from gradkeeper.model.rule import Rule

FEW = 12
"""Files that are not worth a second process."""
SMALL_TREE = 400
"""Up to here, files that do not train are parsed as well, to say where they cannot be."""
RARELY = 50_000
"""Objects between two searches for garbage: syntax trees are large and hold no cycles."""


def check_files(
    paths: Sequence[str], named: Iterable[str] = (), *, fixes: bool = True
) -> Iterator[tuple[str, Checked]]:
    """Results in the order of the files."""
    thorough = len(paths) <= SMALL_TREE
    work = partial(check_file, thorough=thorough, named=frozenset(named), fixes=fixes)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if len(paths) <= FEW or cores < 2:
        yield from zip(paths, map(work, paths), strict=True)
        return
    yield from _on_cores(paths, work, cores)


def _on_cores(
    paths: Sequence[str], work: Callable[[str], Checked], cores: int
) -> Iterator[tuple[str, Checked]]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    chunk = max(1, min(64, len(paths) // (cores * 8)))
    done = 0
    with ProcessPoolExecutor(cores, initializer=collect_rarely) as pool:
        try:
            for result in pool.map(work, paths, chunksize=chunk):
                yield paths[done], result
                done += 1
        except BrokenProcessPool:  # by one of those at work just now: each again, by itself
            pass
    waiting = deque(paths[done:])
    while waiting:
        with ProcessPoolExecutor(1, initializer=collect_rarely) as pool:
            try:
                while waiting:
                    yield waiting[0], pool.submit(work, waiting[0]).result()
                    waiting.popleft()
            except BrokenProcessPool:
                why = "the process that checked it died, perhaps for want of memory"
                path = waiting.popleft()
                yield path, Checked([not_checked(path, why)])


def collect_rarely() -> None:
    """For a process that does nothing but check: a tenth of its time went into the search."""
    gc.set_threshold(RARELY)


def check_file(
    path: str,
    *,
    thorough: bool = True,
    named: frozenset[str] = frozenset(),
    fixes: bool = True,
) -> Checked:
    """Reads and checks one file. A byte scan tells whether it can train at all."""
    try:
        with open(path, "rb") as stream:
            raw = stream.read()
    except OSError as error:
        why = ValueError(f"it cannot be opened ({error.strerror or error})")
        return Checked([unparsable(why, path)])
    return check_bytes(raw, path, thorough=thorough or path in named, fixes=fixes)


def check_bytes(
    raw: bytes,
    path: str,
    *,
    thorough: bool = True,
    fixes: bool = True,
    rules: "Iterable[Rule] | None" = None,
) -> Checked:
    """What a file of this name would be told if it held this. Never raises."""
    return guarded(path, lambda: _check_bytes(raw, path, thorough, fixes, rules))


def _check_bytes(
    raw: bytes, path: str, thorough: bool, fixes: bool, rules: "Iterable[Rule] | None"
) -> Checked:
    if path.endswith(".ipynb"):
        return check_notebook(raw, path, fixes=fixes, rules=rules)
    if not may_train(raw):
        tree = parse(raw, path) if thorough else None
        return Checked([tree]) if isinstance(tree, Finding) else Checked()
    from gradkeeper.lint.project import Project
    from gradkeeper.rules import ALL

    return check_source(raw, path, rules or ALL, project=Project(path), fixes=fixes)


def check_notebook(
    raw: bytes, path: str, *, fixes: bool = True, rules: "Iterable[Rule] | None" = None
) -> Checked:
    from gradkeeper.lint import notebook
    from gradkeeper.rules import ALL

    try:
        book = notebook.read(raw)
    except ValueError as error:
        return Checked([unparsable(error, path)])
    if book is None:
        return Checked()
    checked = check_source(book.text, path, rules or ALL, fixes=fixes, book=book)
    broken = [
        replace(unparsable(error, path, code), cell=cell, detail="nothing in this cell was checked")
        for cell, error, code in book.broken
    ]
    checked.findings = [*broken, *map(book.localise, checked.findings)]
    checked.findings.sort(key=lambda one: (one.cell or 0, one.site, one.rule))
    return checked
