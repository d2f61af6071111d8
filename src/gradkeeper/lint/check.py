"""Many files, one program, one source: what is said of each file, and what a failure costs.

Files that import one another are checked as one program, callers first: a finding stands in the
file of its line, and what was called for real is not judged again with invented arguments.
"""

import ast
import gc
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from gradkeeper.lint import suppress
from gradkeeper.lint.columns import in_letters
from gradkeeper.lint.files import DISK, Sources, decode
from gradkeeper.lint.parsing import TOO_DEEP, not_checked, parse, unparsable
from gradkeeper.lint.program import Checked, ProgramFiles, Sketch, may_train, programs, sketch
from gradkeeper.model.finding import Finding

T = TypeVar("T")
R = TypeVar("R")
Died = Callable[[T], tuple[list[T], R | None]]
"""What to try instead of an item that took its process with it, or what is said of it."""

if TYPE_CHECKING:
    from gradkeeper.lint.notebook import Notebook
    from gradkeeper.model.rule import Rule

BOOK = ".ipynb"
FEW = 12
"""Files that are not worth a second process."""
SMALL_TREE = 400
"""Up to here, files that do not train are parsed as well, to say where they cannot be."""
RARELY = 1_000_000
"""Objects between two searches for garbage: syntax trees are large and hold no cycles."""


def check_files(
    paths: Sequence[str], named: Iterable[str] = (), *, fixes: bool = True
) -> Iterator[tuple[str, Checked]]:
    """Each file once, as they are done; and files beside them in which something was found."""
    thorough = len(paths) <= SMALL_TREE
    asked = frozenset(named)
    glance = partial(_glance, thorough=thorough, named=asked, fixes=fixes)
    sketches = []
    quiet: dict[str, Checked] = {}
    # The bytes of a file are scanned before another process would have its path.
    scanned = [path for path in paths if not (thorough or path in asked or path.endswith(BOOK))]
    others = [path for path in paths if thorough or path in asked or path.endswith(BOOK)]
    glances = zip(scanned, map(glance, scanned), strict=True)
    looked_at = []
    for path, seen in chain(glances, _mapped(glance, others, _died)):
        if seen.sketch is None:
            looked_at.append(path)
            yield path, seen.checked
        else:
            sketches.append(seen.sketch)
            quiet[path] = seen.checked
    found = programs(sketches, quiet=looked_at)
    for _, results in _mapped(partial(check_program, fixes=fixes), found, _all_died):
        for path, checked in results.items():
            quiet.pop(path, None)
            yield path, checked
    yield from quiet.items()


@dataclass(slots=True)
class _Glance:
    """What is said of a file by itself; the sketch of one that may be part of a program."""

    checked: Checked
    sketch: Sketch | None = None


def _glance(path: str, *, thorough: bool, named: frozenset[str], fixes: bool) -> _Glance:
    """Reads one file. A byte scan tells whether it can train, or call what does. Never raises."""
    try:
        return _look_at(path, thorough=thorough or path in named, fixes=fixes)
    except OSError as error:
        why = ValueError(f"it cannot be opened ({error.strerror or error})")
        return _Glance(Checked([unparsable(why, path)]))
    except Exception as error:
        return _Glance(_failed(path, error))


def _look_at(path: str, *, thorough: bool, fixes: bool) -> _Glance:
    raw = DISK.read(path)
    if path.endswith(BOOK):
        return _Glance(guarded(path, lambda: check_notebook(raw, path, fixes=fixes)))
    known = sketch(path, raw)
    if (known is not None and known.trains) or not thorough:
        return _Glance(Checked(), known)
    tree = parse(raw, path)
    if isinstance(tree, Finding):
        return _Glance(Checked([tree]))
    return _Glance(Checked(), known)


def _mapped(
    work: Callable[[T], R], items: Sequence[T], died: "Died[T, R]"
) -> Iterator[tuple[T, R]]:
    """On as many cores as there are, if the items are worth it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if len(items) <= FEW or cores < 2:
        yield from zip(items, map(work, items), strict=True)
        return
    yield from _on_cores(work, items, died, cores)


def _on_cores(
    work: Callable[[T], R], items: Sequence[T], died: "Died[T, R]", cores: int
) -> Iterator[tuple[T, R]]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    chunk = max(1, min(64, len(items) // (cores * 8)))
    done = 0
    with ProcessPoolExecutor(cores, initializer=_at_work) as pool:
        try:
            for result in pool.map(work, items, chunksize=chunk):
                yield items[done], result
                done += 1
        except BrokenProcessPool:  # by one of those at work just now: each again, by itself
            pass
    waiting = deque(items[done:])
    while waiting:
        with ProcessPoolExecutor(1, initializer=_at_work) as pool:
            try:
                while waiting:
                    yield waiting[0], pool.submit(work, waiting[0]).result()
                    waiting.popleft()
            except BrokenProcessPool:
                item = waiting.popleft()
                instead, last_word = died(item)
                waiting.extendleft(reversed(instead))
                if last_word is not None:
                    yield item, last_word


def _died(path: str) -> tuple[list[str], _Glance]:
    why = "the process that checked it died, perhaps for want of memory"
    return [], _Glance(Checked([not_checked(path, why)]))


def _all_died(program: ProgramFiles) -> tuple[list[ProgramFiles], dict[str, Checked] | None]:
    """Of several files, each by itself: one of them did it."""
    if len(program.paths) > 1:
        return [ProgramFiles([path]) for path in program.paths], None
    return [], {path: _died(path)[1].checked for path in program.paths}


def _at_work() -> None:
    """Ctrl-C is for the process that hands out the work."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely()


def collect_rarely() -> None:
    """For a process that does nothing but check: a tenth of its time went into the search."""
    gc.set_threshold(RARELY)


def check_bytes(
    raw: bytes, path: str, *, fixes: bool = True, rules: "Iterable[Rule] | None" = None
) -> Checked:
    """What a file of this name would be told if it held this. Never raises."""
    if path.endswith(BOOK):
        return guarded(path, lambda: check_notebook(raw, path, fixes=fixes, rules=rules))
    known = sketch(path, raw)
    sources = Sources({path: raw})
    for program in programs([known] if known else [], sources):
        return check_program(program, fixes=fixes, rules=rules, sources=sources)[path]
    tree = parse(raw, path)
    return Checked([tree]) if isinstance(tree, Finding) else Checked()


def check_program(
    program: ProgramFiles,
    *,
    fixes: bool = True,
    rules: "Iterable[Rule] | None" = None,
    sources: Sources = DISK,
) -> dict[str, Checked]:
    """What is said of each file, and of those beside them in which something was found.

    Never raises.
    """
    from gradkeeper.rules import ALL

    try:
        return _check_program(program, tuple(rules or ALL), sources, fixes=fixes)
    except Exception as error:  # not of the rehearsal, which has a barrier of its own
        return {path: _failed(path, error) for path in program.paths}


def _check_program(
    program: ProgramFiles, chosen: "tuple[Rule, ...]", sources: Sources, *, fixes: bool
) -> dict[str, Checked]:
    found: dict[str, Checked] = {}
    trees: dict[str, ast.Module] = {}
    for path in program.paths:
        tree = parse(sources.read(path), path)
        if isinstance(tree, Finding):
            found[path] = Checked([tree])
        else:
            trees[path] = tree
    for path, checked in _rehearsed(trees, chosen, sources).items():
        checked.findings = in_letters(checked.findings, sources)
        found[path] = checked
    for path, checked in found.items():
        checked.program = program
        checked.findings, unused = _silenced(checked.findings, sources.read(path))
        checked.unused = [(str(line), name) for line, name in unused]
    if fixes:
        _attach(found, program, chosen, sources)
    return found


def _rehearsed(
    trees: dict[str, ast.Module], rules: "tuple[Rule, ...]", sources: Sources
) -> dict[str, Checked]:
    """The barrier around a program: files on which a rehearsal fails are left out of it."""
    if len(trees) == 1:
        (path,) = trees
        return _guarded(path, lambda: rehearse_files(trees, rules, sources=sources))
    try:
        return rehearse_files(trees, rules, sources=sources)
    except Exception:
        alone = {path: _rehearsed({path: tree}, rules, sources) for path, tree in trees.items()}
    failed = [path for path, found in alone.items() if found[path].traceback]
    if not failed:  # only together: then each by itself
        return {path: found[path] for path, found in alone.items()}
    others = {path: tree for path, tree in trees.items() if path not in failed}
    rest = _rehearsed(others, rules, sources) if others else {}
    return {**rest, **{path: alone[path][path] for path in failed}}


def rehearse_files(
    trees: Mapping[str, ast.Module],
    rules: "tuple[Rule, ...]",
    *,
    sources: Sources | None = None,
    book: "Notebook | None" = None,
) -> dict[str, Checked]:
    from gradkeeper.lint.rehearse import rehearse_files  # most files need none of it

    return rehearse_files(trees, rules, sources=sources, book=book)


def _silenced(
    findings: Iterable[Finding], raw: bytes
) -> tuple[list[Finding], list[tuple[int, str]]]:
    return suppress.apply(findings, suppress.read(decode(raw)[0]))


def _attach(
    found: dict[str, Checked], program: ProgramFiles, rules: "tuple[Rule, ...]", sources: Sources
) -> None:
    """Fixes, each tried on the files whose findings it may change."""
    for path, checked in found.items():
        affected = program.affected_by(path)
        if not checked.findings or not affected:
            continue
        known = [finding for other in affected for finding in found[other].findings]
        alone = ProgramFiles(affected)
        work = partial(_with_fixes, path, checked, known, alone, rules, sources)
        fixed = guarded(path, work)
        if fixed is not checked:  # a fix could not even be tried
            checked.findings += fixed.findings
            checked.traceback = fixed.traceback


def _with_fixes(
    path: str,
    checked: Checked,
    known: list[Finding],
    program: ProgramFiles,
    rules: "tuple[Rule, ...]",
    sources: Sources,
) -> Checked:
    from gradkeeper.lint.fixes import attach

    raw = sources.read(path)
    tree = parse(raw, path)
    if isinstance(tree, Finding):
        return checked
    text, encoding = decode(raw)

    def again(new: str) -> list[Finding]:
        changed = sources.changed(path, new.encode(encoding))
        after = check_program(program, fixes=False, rules=rules, sources=changed)
        return [finding for some in after.values() for finding in some.findings]

    checked.findings = attach(checked.findings, text, path, tree, again, known)
    return checked


def check_notebook(
    raw: bytes, path: str, *, fixes: bool = True, rules: "Iterable[Rule] | None" = None
) -> Checked:
    from gradkeeper.lint import notebook
    from gradkeeper.rules import ALL

    try:
        book = notebook.read(raw)
    except ValueError as error:
        why = f"cannot be read as a notebook: {error}"
        remedy = "open it in Jupyter and save it again, or leave the file out"
        return Checked([replace(unparsable(error, path), message=why, remedy=remedy)])
    if book is None:
        return Checked()
    checked = check_source(book.text, path, rules or ALL, fixes=fixes, book=book, sources=DISK)
    broken = [
        replace(unparsable(error, path, code), cell=cell, detail="nothing in this cell was checked")
        for cell, error, code in (book.broken if notebook.may_concern(raw) else ())
    ]
    checked.findings = [*broken, *map(book.localise, checked.findings)]
    checked.findings.sort(key=lambda finding: (finding.cell or 0, finding.site, finding.rule))
    return checked


def guarded(path: str, check: Callable[[], Checked]) -> Checked:
    """The barrier: whatever goes wrong while a file is checked costs that file, and no other."""
    return _guarded(path, lambda: {path: check()})[path]


def _guarded(path: str, check: Callable[[], dict[str, Checked]]) -> dict[str, Checked]:
    try:
        return check()
    except Exception as error:
        return {path: _failed(path, error)}


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    said = " ".join(str(error).split())
    described = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return f"gradkeeper failed on it ({described})"


def _failed(path: str, error: Exception) -> Checked:
    from traceback import format_exception

    traceback = "".join(format_exception(error))
    return Checked([not_checked(path, _why(error))], traceback=traceback)


def check_source(
    text: bytes | str,
    path: str,
    rules: "Iterable[Rule]",
    *,
    fixes: bool = True,
    book: "Notebook | None" = None,
    sources: Sources | None = None,
) -> Checked:
    """What the rules say of one source by itself; suppressions are honoured. Never raises.

    `book`: the notebook whose program the source is. Findings have their sites in the program all
    the same, and only speak of cells. `sources`: where modules are that it imports, if in reach.
    """
    return guarded(path, lambda: _check_source(text, path, rules, fixes, book, sources))


def _check_source(
    text: bytes | str,
    path: str,
    rules: "Iterable[Rule]",
    fixes: bool,
    book: "Notebook | None",
    sources: Sources | None,
) -> Checked:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    tree = parse(raw, path)
    if isinstance(tree, Finding):
        return Checked([tree])
    if not may_train(raw):
        return Checked()
    checked = rehearse_files({path: tree}, tuple(rules), sources=sources, book=book)[path]
    checked.findings = in_letters(checked.findings, Sources({path: raw}))
    checked.findings, unused = _silenced(checked.findings, raw)
    checked.unused = [(book.shown(line) if book else str(line), name) for line, name in unused]
    if checked.findings and fixes:
        from gradkeeper.lint.fixes import attach

        def again(new: str) -> list[Finding]:
            return _check_source(new, path, rules, False, None, sources).findings

        text = decode(raw)[0]
        checked.findings = attach(checked.findings, text, path, tree, again)
    return checked
