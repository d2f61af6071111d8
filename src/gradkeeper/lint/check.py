"""Many files, one program, one source: what is said of each file, and what a failure costs.

Files that import one another are checked as one program, callers first: a finding stands in the
file of its line, and what was called for real is not judged again with invented arguments.
"""

import ast
import gc
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from gradkeeper.lint import suppress
from gradkeeper.lint.files import DISK, Sources, decode
from gradkeeper.lint.parsing import TOO_DEEP, not_checked, parse, unparsable
from gradkeeper.lint.program import Program, Sketch, programs, sketch
from gradkeeper.lint.vocabulary import may_train
from gradkeeper.model.finding import Finding, Findings
from gradkeeper.model.site import Site

T = TypeVar("T")
R = TypeVar("R")
Died = Callable[[T], tuple[list[T], R | None]]
"""What to try instead of an item that took its process with it, or what is said of it."""

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
Place = tuple[str, int]
"""A file's absolute path, and a line in it."""


@dataclass(slots=True)
class Seen:
    """What rehearsals saw of files beside their own: the checks of those build on it."""

    findings: list[Finding] = field(default_factory=list)
    entered: set[Place] = field(default_factory=set)
    """Functions that somebody called."""
    loops: dict[Place, bool] = field(default_factory=dict)
    """Training loops that were run; True for those that came to a step."""

    def add(self, other: "Seen") -> None:
        self.findings += other.findings
        self.entered |= other.entered
        for place, stepped in other.loops.items():
            self.loops[place] = stepped or self.loops.get(place, False)

    def take(self, path: str) -> list[Finding]:
        """The findings in one file, which leave here."""
        here = os.path.abspath(path)
        taken = [one for one in self.findings if os.path.abspath(one.site.file) == here]
        self.findings = [one for one in self.findings if os.path.abspath(one.site.file) != here]
        return [replace(one, site=one.site._replace(file=path)) for one in taken]


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
    elsewhere: Seen = field(default_factory=Seen)
    """What its rehearsal saw of other files."""
    program: Program | None = None
    """The files that it was checked with."""


def check_files(
    paths: Sequence[str], named: Iterable[str] = (), *, fixes: bool = True
) -> Iterator[tuple[str, Checked]]:
    """Each file once, as they are done; and files beside them in which something was found."""
    thorough = len(paths) <= SMALL_TREE
    glance = partial(_glance, thorough=thorough, named=frozenset(named), fixes=fixes)
    sketches = []
    quiet: dict[str, Checked] = {}
    for path, seen in _mapped(glance, paths, _died):
        if seen.sketch is None:
            yield path, seen.checked
        else:
            sketches.append(seen.sketch)
            quiet[path] = seen.checked
    for _, results in _mapped(partial(check_program, fixes=fixes), programs(sketches), _all_died):
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
    """Reads one file. A byte scan tells whether it can train, or call what does."""
    try:
        raw = DISK.read(path)
    except OSError as error:
        why = ValueError(f"it cannot be opened ({error.strerror or error})")
        return _Glance(Checked([unparsable(why, path)]))
    if path.endswith(".ipynb"):
        return _Glance(guarded(path, lambda: check_notebook(raw, path, fixes=fixes)))
    known = sketch(path, raw)
    if (known is not None and known.trains) or not (thorough or path in named):
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


def _all_died(program: Program) -> tuple[list[Program], dict[str, Checked] | None]:
    """Of several files, each by itself: one of them did it."""
    if len(program.paths) > 1:
        return [Program([path]) for path in program.paths], None
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
    if path.endswith(".ipynb"):
        return guarded(path, lambda: check_notebook(raw, path, fixes=fixes, rules=rules))
    known = sketch(path, raw)
    sources = Sources({path: raw})
    for program in programs([known] if known else [], sources):
        return check_program(program, fixes=fixes, rules=rules, sources=sources)[path]
    tree = parse(raw, path)
    return Checked([tree]) if isinstance(tree, Finding) else Checked()


def check_program(
    program: Program,
    *,
    fixes: bool = True,
    rules: "Iterable[Rule] | None" = None,
    sources: Sources = DISK,
) -> dict[str, Checked]:
    """What is said of each file, and of those beside them in which something was found."""
    from gradkeeper.rules import ALL

    chosen = tuple(rules or ALL)
    seen = Seen()
    found: dict[str, Checked] = {}
    for path in program.paths:
        checked = found[path] = guarded(path, partial(_check_one, path, chosen, sources, seen))
        checked.program = program
        seen.add(checked.elsewhere)
    for path in dict.fromkeys(one.site.file for one in seen.findings):
        # Of a file that came before its caller, in a circle of imports, or is only read along.
        known = next((one for one in found if os.path.samefile(one, path)), path)
        late = _silenced(seen.take(path), sources.read(path))[0]
        if late:
            checked = found.setdefault(known, Checked(program=program))
            checked.findings = list(Findings([*checked.findings, *late]))
    if fixes:
        _attach(found, program, chosen, sources)
    return found


def _check_one(path: str, rules: "tuple[Rule, ...]", sources: Sources, seen: Seen) -> Checked:
    from gradkeeper.lint.project import Project

    raw = sources.read(path)
    tree = parse(raw, path)
    if isinstance(tree, Finding):
        return Checked([tree])
    checked = rehearse_tree(tree, path, rules, project=Project(path, sources), seen=seen)
    told = Findings([*checked.findings, *seen.take(path)])
    checked.findings, unused = _silenced(told, raw)
    checked.unused = [(str(line), name) for line, name in unused]
    return checked


def _silenced(
    findings: Iterable[Finding], raw: bytes
) -> tuple[list[Finding], list[tuple[int, str]]]:
    return suppress.apply(findings, suppress.read(decode(raw)[0]))


def _attach(
    found: dict[str, Checked], program: Program, rules: "tuple[Rule, ...]", sources: Sources
) -> None:
    """Fixes, each tried on the files whose findings it may change."""
    for path, checked in found.items():
        affected = program.affected_by(path)
        if not checked.findings or not affected:
            continue
        known = [one for other in affected for one in found[other].findings]
        alone = Program(affected)
        work = partial(_with_fixes, path, checked, known, alone, rules, sources)
        fixed = guarded(path, work)
        if fixed is not checked:  # a fix could not even be tried
            checked.findings += fixed.findings
            checked.traceback = fixed.traceback


def _with_fixes(
    path: str,
    checked: Checked,
    known: list[Finding],
    program: Program,
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
        return [one for some in after.values() for one in some.findings]

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
    checked.findings, unused = _silenced(checked.findings, raw)
    checked.unused = [(book.shown(line) if book else str(line), name) for line, name in unused]
    if checked.findings and fixes:
        from gradkeeper.lint.fixes import attach

        def again(new: str) -> list[Finding]:
            return _check_source(new, path, rules, project, fixes=False, book=None).findings

        text = decode(raw)[0]
        checked.findings = attach(checked.findings, text, path, tree, again)
    return checked


def rehearse_tree(
    tree: ast.Module,
    path: str,
    rules: "Iterable[Rule]",
    *,
    project: Any = None,
    book: "Notebook | None" = None,
    seen: Seen | None = None,
) -> Checked:
    """What the rules say of a file, and of others that it calls. `seen`: what its callers saw."""
    from gradkeeper.lint.judge import beyond_budget, judge
    from gradkeeper.lint.rehearse import Program, roots
    from gradkeeper.lint.survey import survey

    imported = project.loud_names(tree) if project is not None else frozenset()
    program = Program(tree, survey(tree, imported), path, project)
    if seen is not None:
        _recall(program, seen)
    folded, elsewhere = Findings(), Findings()
    rules = tuple(rules)
    for runs in roots(program):
        if book is not None:
            _speak_of_cells(runs, path, book)
        for finding in judge(runs, rules):
            if book is not None:
                finding = book.in_program(finding)
            (folded if finding.site.file == path else elsewhere).add(finding)
        if program.survey.training and beyond_budget(runs):
            folded.add(not_checked(path, TOO_LARGE))
    unseen = _never_entered(program)
    if unseen is not None:
        folded.add(not_checked(path, TOO_LARGE, site=Site(path, unseen.lineno)))
    loops = program.survey.training
    rehearsed = [loop for loop in loops if program.finished.get(loop)]
    found = [finding.rehearsed() for finding in folded]
    checked = Checked(found, [], len(loops), len(rehearsed), _reasons(program, loops))
    if project is not None:
        checked.elsewhere = _seen_of_others(program, project.trees)
        checked.elsewhere.findings = [finding.rehearsed() for finding in elsewhere]
    return checked


def _recall(program: Any, seen: Seen) -> None:
    """What callers have run need not be started from here."""
    here = os.path.abspath(program.file)
    for node in program.survey.order:
        if (here, node.lineno) in seen.entered:
            program.visited.add(node)
    for loop in program.survey.training:
        if (here, loop.lineno) in seen.loops:
            program.finished[loop] = seen.loops[here, loop.lineno]


def _seen_of_others(program: Any, trees: dict[str, ast.Module | None]) -> Seen:
    seen = Seen()
    for path, tree in trees.items():
        here = os.path.abspath(path)
        for node in ast.walk(tree) if tree is not None else ():
            if node in program.visited:
                seen.entered.add((here, node.lineno))  # type: ignore[attr-defined]
            if node in program.finished:
                seen.loops[here, node.lineno] = program.finished[node]  # type: ignore[attr-defined]
    return seen


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
