"""Many files, one file, one source: what is said of each, and what it costs if that fails."""

import ast
import gc
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gradkeeper.lint import suppress
from gradkeeper.lint.files import DISK, Sources, decode
from gradkeeper.lint.parsing import TOO_DEEP, not_checked, parse, unparsable
from gradkeeper.lint.vocabulary import may_train
from gradkeeper.model.finding import Finding, Findings
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.lint.notebook import Notebook
    from gradkeeper.lint.rehearse import Run
    from gradkeeper.model.rule import Rule

FEW = 12
"""Files that are not worth a second process."""
SMALL_TREE = 400
"""Up to here, files that do not train are parsed as well, to say where they cannot be."""
RARELY = 50_000
"""Objects between two searches for garbage: syntax trees are large and hold no cycles."""
TOO_LARGE = "it is too large to rehearse"


@dataclass(slots=True)
class Checked:
    findings: list[Finding] = field(default_factory=list)
    unused: list[tuple[str, str]] = field(default_factory=list)
    """Suppressions that silence nothing: where (`9`, or `cell 3:9`), and name."""
    loops: int = 0
    """Training loops in the source."""
    rehearsed: int = 0
    """Those that came to a step."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why the others were not understood."""
    traceback: str = ""
    """Of the fault in gradkeeper itself that ended this check."""


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
    with ProcessPoolExecutor(cores, initializer=_at_work) as pool:
        try:
            for result in pool.map(work, paths, chunksize=chunk):
                yield paths[done], result
                done += 1
        except BrokenProcessPool:  # by one of those at work just now: each again, by itself
            pass
    waiting = deque(paths[done:])
    while waiting:
        with ProcessPoolExecutor(1, initializer=_at_work) as pool:
            try:
                while waiting:
                    yield waiting[0], pool.submit(work, waiting[0]).result()
                    waiting.popleft()
            except BrokenProcessPool:
                why = "the process that checked it died, perhaps for want of memory"
                path = waiting.popleft()
                yield path, Checked([not_checked(path, why)])


def _at_work() -> None:
    """Ctrl-C is for the process that hands out the work."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely()


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
        raw = DISK.read(path)
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
    sources: Sources = DISK,
) -> Checked:
    """What a file of this name would be told if it held this. Never raises."""
    return guarded(path, lambda: _check_bytes(raw, path, thorough, fixes, rules, sources))


def _check_bytes(
    raw: bytes,
    path: str,
    thorough: bool,
    fixes: bool,
    rules: "Iterable[Rule] | None",
    sources: Sources,
) -> Checked:
    if path.endswith(".ipynb"):
        return check_notebook(raw, path, fixes=fixes, rules=rules)
    if not may_train(raw):
        tree = parse(raw, path) if thorough else None
        return Checked([tree]) if isinstance(tree, Finding) else Checked()
    from gradkeeper.lint.project import Project
    from gradkeeper.rules import ALL

    return check_source(raw, path, rules or ALL, project=Project(path, sources), fixes=fixes)


def check_notebook(
    raw: bytes, path: str, *, fixes: bool = True, rules: "Iterable[Rule] | None" = None
) -> Checked:
    from gradkeeper.lint import notebook
    from gradkeeper.rules import ALL

    try:
        book = notebook.read(raw)
    except ValueError as error:
        why = f"cannot be read as a notebook: {error}"
        return Checked([replace(unparsable(error, path), message=why)])
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


def guarded(path: str, check: Callable[[], Checked]) -> Checked:
    """The barrier: whatever goes wrong while a file is checked costs that file, and no other."""
    try:
        return check()
    except RecursionError:
        return Checked([not_checked(path, TOO_DEEP)], traceback=_traceback())
    except MemoryError:
        return Checked([not_checked(path, "it needs more memory than there is")])
    except Exception as error:
        why = f"gradkeeper failed on it ({_described(error)})"
        return Checked([not_checked(path, why)], traceback=_traceback())


def _described(error: Exception) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _traceback() -> str:
    from traceback import format_exc

    return format_exc()


def check_source(
    text: bytes | str,
    path: str,
    rules: "Iterable[Rule]",
    *,
    project: Any = None,
    fixes: bool = True,
    book: "Notebook | None" = None,
) -> Checked:
    """What the rules say of one source; suppressions are honoured. Never raises.

    `book`: the notebook whose program the source is. Findings have their sites in the program all
    the same, and only speak of cells.
    """
    return guarded(path, lambda: _check_source(text, path, rules, project, fixes, book))


def _check_source(
    text: bytes | str,
    path: str,
    rules: "Iterable[Rule]",
    project: Any,
    fixes: bool,
    book: "Notebook | None",
) -> Checked:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    tree = parse(raw, path)
    if isinstance(tree, Finding):
        return Checked([tree])
    if not may_train(raw):
        return Checked()
    checked = rehearse_tree(tree, path, rules, project=project, book=book)
    source, _ = decode(raw)
    comments = suppress.read(source)
    checked.findings, unused = suppress.apply(checked.findings, comments)
    checked.unused = [(book.shown(line) if book else str(line), name) for line, name in unused]
    if checked.findings and fixes:
        from gradkeeper.lint.fixes import attach

        def again(new: str) -> list[Finding]:
            return _check_source(new, path, rules, project, fixes=False, book=None).findings

        checked.findings = attach(checked.findings, source, path, tree, again)
    return checked


def rehearse_tree(
    tree: ast.Module,
    path: str,
    rules: "Iterable[Rule]",
    *,
    project: Any = None,
    book: "Notebook | None" = None,
) -> Checked:
    from gradkeeper.lint.judge import beyond_budget, judge
    from gradkeeper.lint.rehearse import Program, roots
    from gradkeeper.lint.survey import survey

    program = Program(tree, survey(tree), path, project)
    folded = Findings()
    rules = tuple(rules)
    for runs in roots(program):
        if book is not None:
            _speak_of_cells(runs, path, book)
        for finding in judge(runs, rules):
            if book is not None:
                finding = book.in_program(finding)
            if finding.site.file == path:
                folded.add(finding)
        if program.survey.training and beyond_budget(runs):
            folded.add(not_checked(path, TOO_LARGE))
    unseen = _never_entered(program)
    if unseen is not None:
        folded.add(not_checked(path, TOO_LARGE, site=Site(path, unseen.lineno)))
    seen = program.survey.training
    rehearsed = [loop for loop in seen if program.finished.get(loop)]
    found = [finding.rehearsed() for finding in folded]
    return Checked(found, [], len(seen), len(rehearsed), _reasons(program, seen))


def _speak_of_cells(runs: "list[Run]", path: str, book: "Notebook") -> None:
    """Rules say `line 4`, or `cell 2 line 4`: so events must know their cells before the audit."""
    for run in runs:
        run.tape = [
            replace(event, site=book.in_cell(event.site)) if event.site.file == path else event
            for event in run.tape
        ]


def _never_entered(program: Any) -> Any:
    """A training loop in a function for which nothing was left of the file's budget."""
    unseen = [loop for loop in program.survey.training if loop not in program.finished]
    for function in program.left:
        for loop in unseen:
            if function.lineno < loop.lineno <= function.end_lineno:
                return loop
    return None


def _reasons(program: Any, loops: list[ast.AST]) -> dict[str, int]:
    found: dict[str, int] = {}
    for loop in loops:
        if program.finished.get(loop):
            continue
        if loop in program.finished:
            why = "no step that could be followed"
        else:
            why = next(iter(program.reasons), "never reached")
        found[why] = found.get(why, 0) + 1
    return found
