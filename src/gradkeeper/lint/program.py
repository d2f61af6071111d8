"""Which files are one program, callers before what they call; and what is said of each.

A file that trains is best judged from where it is called: there its arguments are known. So a file
that only builds an optimizer and hands it on belongs to it, and comes first.
"""

import os
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from gradkeeper.lint.files import DISK, Sources
from gradkeeper.model.finding import Finding

# With a line's end in front instead of `^`: five times as fast.
FROM = rb"\n[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(?:\(([^)]*)\)|([^\n#;]*))"
IMPORT = rb"\n[ \t]*import[ \t]+([\w., \t]+)"
NAME = rb"(\w+|\*)(?:[ \t]+as[ \t]+\w+)?"
ACTS = re.compile(rb"\n(?:(?:for|while|with)[ \t(]|[\w.]+\()")
"""A script does something by itself, as a module that only defines does not."""
HIGHEST = 6
"""Folders above a file in which its imports are looked for, at most."""
ROOTS_ONLY = (".git", "pyproject.toml")
"""What lies at the root of a project, and nowhere else."""
ROOTS = (*ROOTS_ONLY, "setup.py", "setup.cfg")
INSTALLED = ("site-packages", "dist-packages")
"""Folders in which packages lie side by side that are no project."""
INIT = "__init__.py"
DEEPEST = 4
"""Packages that hand a name on to one another."""
MOST_TOGETHER = 200
"""Files of a project in which nothing trains are looked at up to here, those nearest to training
code first."""
MOST_READ_ALONG = 200
"""Files beside those to check that are looked at for what they import."""


CREDIT_WORDS = (b"backward(", b"caler(", b"autograd.grad(")
CREDITS = re.compile(rb"\.backward\(|manual_backward\(|GradScaler\(|backward\(\[?loss")
SPENDS = re.compile(
    rb"\.step\(|zero_grad|(?<!autograd)\.grad\b|GradScaler\(|_step\(|\bEngine\(|\boptim\.[A-Z]"
)
"""A step, a zeroing, or an optimizer that is built: one that never steps is a finding, too."""
APPLIES = re.compile(rb"zero_grad\(|\bopt\w*\.step\(")
SCALES = re.compile(rb"[sS]caler\((?!\s*[\w.]*\s*\))")
"""`loss_scaler(loss, optimizer)` does both: more than one thing is given to it."""
OPTIMIZER = re.compile(rb"\bopt(?:im\w*|s|_\w*|[A-Z0-9]\w*)?\b|[a-z_][oO]pt(?:im\w*|\d*)\b")
MOVES = re.compile(rb"[-+]=|\.data\b|[a-z]_\(")
"""What changes weights by hand, after `autograd.grad(...)`."""
OTHERS = re.compile(
    rb"^\s*(?:import|from) (?:mxnet|paddle|chainer|mindspore|jittor|tinygrad)\b", re.M
)
"""Libraries with a backward of their own, whose gradients need not add up."""
STRINGS = re.compile(
    rb"""(\#[^\n]*)
    |\"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}
    |'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}
    |"[^"\\\n]*(?:\\.[^"\\\n]*)*"
    |'[^'\\\n]*(?:\\.[^'\\\n]*)*'""",
    re.S | re.X,
)
"""Texts, and comments, in which a quote begins none."""


FORGETS_BACKWARD = (b".step(", b"torch.optim")


def may_train(raw: bytes) -> bool:
    """A byte scan: without a backward and something that spends, there is nothing to rehearse.

    Unless everything else is there: then it may have been forgotten. What a text shows, as the
    example in a docstring, nobody runs; what a comment holds may be the line that is missing.
    """
    if not _seems_to_train(raw):
        return False
    # Nearly always right, and thirty times as fast.
    code = b"''".join(raw.split(b'"""')[::2])
    return _seems_to_train(code) or _seems_to_train(STRINGS.sub(rb"\1''", raw))


def _seems_to_train(raw: bytes) -> bool:
    if not any(word in raw for word in CREDIT_WORDS):
        # Ten times as fast as the pattern, and true of nearly all files.
        return b"backward" not in raw and all(word in raw for word in FORGETS_BACKWARD)
    if b"import torch" not in raw and b"from torch" not in raw and OTHERS.search(raw):
        return False
    spends = SPENDS.search(raw) is not None
    if spends and CREDITS.search(raw):
        return True
    if SCALES.search(raw) and (spends or OPTIMIZER.search(raw)):
        return True
    return b"autograd.grad(" in raw and (spends or MOVES.search(raw) is not None)


TAKES_PART = (b"backward(", b"zero_grad", b"clip_grad", b"GradScaler")

CALLS = (b"optim", b"__main__", b"oader", *TAKES_PART)
"""What stands in a file that calls training code, or hands something to it: it goes over data."""
HINTS = (b"optim", b"__main__", b"oader", b"backward(", b"caler")
GRAD_HINTS = (b"zero_grad", b"clip_grad", b"autograd.grad(")
"""One of them stands wherever something trains, or calls what does: most files have none."""


def takes_part(raw: bytes) -> bool:
    """A byte scan: the file may hold something that training code calls and that is part of it."""
    return any(word in raw for word in TAKES_PART)


ImportedName = tuple[int, str, str]
"""How many dots stand before a module, its name, and the name that is taken from it, or none."""


@dataclass(slots=True)
class Sketch:
    """What a glance at a file's bytes tells."""

    path: str
    trains: bool
    imports: tuple[ImportedName, ...]
    credits: bool = False
    applies: bool = False
    """Where it does not train by itself: one half of it, whose other half may be elsewhere."""


def sketch(path: str, raw: bytes) -> Sketch | None:
    """None for a file that neither trains nor can hand anything to one that does."""
    if path.endswith(".ipynb"):
        return None
    hinted = any(word in raw for word in HINTS) or (
        b"grad" in raw and any(word in raw for word in GRAD_HINTS)
    )
    trains = hinted and may_train(raw)
    calls = hinted and any(word in raw for word in CALLS)
    if not (trains or calls) and not ACTS.search(b"\n" + raw):
        return None
    known = Sketch(path, trains, tuple(dict.fromkeys(imports_in(raw))))
    if hinted and not trains:
        known.credits = CREDITS.search(raw) is not None
        known.applies = APPLIES.search(raw) is not None
    return known


def imports_in(raw: bytes) -> Iterator[ImportedName]:
    raw = b"\n" + raw
    for dots, module, some, more in re.findall(FROM, raw):
        for name in re.findall(NAME, some or more):
            yield len(dots), module.decode(), name.decode()
    for names in re.findall(IMPORT, raw):
        for word in names.split(b","):
            yield 0, word.split()[0].decode() if word.split() else "", ""


@dataclass(slots=True)
class ProgramFiles:
    """Files that import one another, callers first."""

    paths: list[str]
    imported_by: dict[str, list[str]] = field(default_factory=dict)

    def affected_by(self, path: str) -> list[str]:
        """A file and all that import it, or one that does, callers first."""
        found = {path}
        waiting = [path]
        while waiting:
            new = [
                importer
                for importer in self.imported_by.get(waiting.pop(), [])
                if importer not in found
            ]
            found.update(new)
            waiting += new
        return [file for file in self.paths if file in found]


@dataclass(frozen=True, slots=True)
class TrainingLoop:
    """What a check knows of one training loop."""

    place: str
    """Its line: `9`, or `cell 3:9`."""
    what: str
    """How it begins."""
    why: str = ""
    """Why it was not rehearsed through two rounds to a step; empty if it was."""
    rehearsals: int = 0
    begins: tuple[str, ...] = ()
    """Where its rehearsals began."""
    settings: tuple[str, ...] = ()
    """Conditions that hold or not throughout a run, with what was tried of them."""
    windows: tuple[int, ...] = ()
    """Numbers of micro-batches that were tried, where the source doesn't tell."""
    doubts: tuple[str, ...] = ()
    """Why most rules said nothing of any of its rehearsals."""
    unfinished: bool = False
    """More settings would have been tried, had that not cost more than a file may."""


@dataclass(slots=True)
class Checked:
    findings: list[Finding] = field(default_factory=list)
    unused: list[tuple[str, str]] = field(default_factory=list)
    """Suppressions that silence nothing: where (`9`, or `cell 3:9`), and name."""
    training: list[TrainingLoop] = field(default_factory=list)
    traceback: str = ""
    """Of the fault in gradkeeper itself that ended this check."""
    program: ProgramFiles | None = None
    """The files that it was checked with."""

    @property
    def loops(self) -> int:
        """Training loops in the source."""
        return len(self.training)

    @property
    def rehearsed(self) -> int:
        """Those that came to a step."""
        return sum(not loop.why for loop in self.training)


def programs(
    sketches: Iterable[Sketch], sources: Sources = DISK, *, quiet: Iterable[str] = ()
) -> list[ProgramFiles]:
    """Those in which something trains. Files that are only read along are in none of them.

    `quiet`: files that were looked at, and of which there is no sketch.
    """
    known = {os.path.abspath(sketch.path): sketch for sketch in sketches}
    asked = dict.fromkeys(known)
    edges = _edges(known, _Files(sources, map(os.path.abspath, quiet)))
    trains = {path for path, sketch in known.items() if sketch.trains}
    callers: dict[str, set[str]] = {path: set() for path in known}
    for path, imported in edges.items():
        for file in imported:
            callers[file].add(path)
    trains |= _other_halves(known, edges, callers)
    reaching = {
        path
        for together in _components(trains, edges, callers)
        for path in _within_reach(trains & together, callers)
    }
    wanted = [path for path in asked if path in reaching]
    together = {path: (edges[path] | callers[path]) & reaching for path in reaching}
    found = []
    seen: set[str] = set()
    for path in wanted:
        if path in seen:
            continue
        members = _closure({path}, together)
        seen |= members
        order = [file for file in _callers_first(members, edges) if file in asked]
        imported_by = {
            known[file].path: [known[other].path for other in order if other in callers[file]]
            for file in order
        }
        found.append(ProgramFiles([known[file].path for file in order], imported_by))
    return found


def _other_halves(
    known: dict[str, Sketch], edges: dict[str, set[str]], callers: dict[str, set[str]]
) -> set[str]:
    """Files with a backward whose steps are taken in another one that they import, or that is
    imported beside them: a loop in one file, and the hooks of it in another."""
    found = set()
    for path, sketch in known.items():
        if not sketch.credits:
            continue
        using = [caller for caller in callers[path] if os.path.basename(caller) != INIT]
        beside = edges[path].union(using, *(edges[caller] for caller in using))
        if any(known[other].applies for other in beside):
            found.add(path)
    return found


def _edges(known: dict[str, Sketch], files: "_Files") -> dict[str, set[str]]:
    """What each file imports of the same project; what is not known yet is looked at."""
    edges: dict[str, set[str]] = {}
    waiting = list(known)
    while waiting:
        path = waiting.pop()
        found = edges[path] = set()
        targets = [files.imported(imported, path) for imported in known[path].imports]
        seen = {path}
        while targets:
            target = targets.pop()
            if target is None or target in seen:
                continue
            seen.add(target)
            if target not in known:
                along = files.read_along(target)
                if along is None:
                    targets += files.taken_in(target)
                    continue
                known[target] = along
                waiting.append(target)
            found.add(target)
    return edges


class _Files:
    """Finds the files of modules. Each folder is listed, each package looked into once."""

    def __init__(self, sources: Sources, quiet: Iterable[str] = ()) -> None:
        self._sources = sources
        self._names: dict[str, frozenset[str]] = {}
        self._files: dict[tuple[str, str], str | None] = {}
        """By folder and module."""
        self._nearest: dict[tuple[str, int, str], str | None] = {}
        """What was located, by the folder of the file that imports it."""
        self._packages: dict[str, tuple[ImportedName, ...]] = {}
        self._along: dict[str, Sketch | None] = dict.fromkeys(quiet)
        self._most = len(self._along) + MOST_READ_ALONG

    def read_along(self, path: str) -> Sketch | None:
        """The sketch of a file that nobody asked to check."""
        if path not in self._along and len(self._along) < self._most:
            try:
                self._along[path] = sketch(path, self._sources.read(path))
            except OSError:
                self._along[path] = None
        return self._along.get(path)

    def imported(self, wanted: ImportedName, path: str, depth: int = 0) -> str | None:
        """The file that an import in this one leads to, through packages that only hand it on."""
        level, module, name = wanted
        inner = self._locate(f"{module}.{name}" if module else name, level, path) if name else None
        if inner is not None:
            return inner
        found = self._locate(module, level, path)
        if found is None or not name or os.path.basename(found) != INIT or depth == DEEPEST:
            return found
        for other in self._handed_on(found):
            if other[2] in (name, "*"):
                handed = self.imported((other[0], other[1], name), found, depth + 1)
                if handed is not None and handed != found:
                    return handed
        return found

    def _handed_on(self, package: str) -> tuple[ImportedName, ...]:
        if package not in self._packages:
            try:
                self._packages[package] = tuple(imports_in(self._sources.read(package)))
            except OSError:
                self._packages[package] = ()
        return self._packages[package]

    def taken_in(self, path: str) -> Iterator[str]:
        """The modules that a package hands on as such, for `package.training.Trainer`."""
        if os.path.basename(path) != INIT:
            return
        for level, module, name in self._handed_on(path):
            inner = f"{module}.{name}" if module else name
            found = self._locate(inner, level, path) if name else None
            if found is not None:
                yield found

    def _locate(self, module: str, level: int, path: str) -> str | None:
        """What a module's name means in a file, if that lies in the same project."""
        folder = path.rpartition(os.sep)[0] or os.sep
        key = (folder, level, module)
        if key in self._nearest:
            found = self._nearest[key]
        else:
            found = self._nearest[key] = self._search(module, level, folder, "")
        return found if found != path or level else self._search(module, level, folder, path)

    def _search(self, module: str, level: int, folder: str, path: str) -> str | None:
        """In the folder and in those above it; a file does not import itself."""
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            return self._file_in(folder, module)
        for _ in range(HIGHEST if module else 0):
            found = self._file_in(folder, module)
            if found is not None and found != path:
                return found
            above = folder_above(folder, self._in(folder), module)
            if above is None:
                return None
            folder = above
        return None

    def _file_in(self, folder: str, module: str) -> str | None:
        key = (folder, module)
        if key not in self._files:
            self._files[key] = self._find(folder, module.split(".") if module else [])
        return self._files[key]

    def _find(self, folder: str, parts: list[str]) -> str | None:
        for part in parts[:-1]:
            if part not in self._in(folder):
                return None
            folder = os.path.join(folder, part)
        if parts and f"{parts[-1]}.py" in self._in(folder):
            return os.path.join(folder, f"{parts[-1]}.py")
        if parts and parts[-1] not in self._in(folder):
            return None
        folder = os.path.join(folder, *parts[-1:])
        return os.path.join(folder, INIT) if INIT in self._in(folder) else None

    def _in(self, folder: str) -> frozenset[str]:
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))
            except OSError:
                self._names[folder] = frozenset()
        return self._names[folder]


def folder_above(folder: str, names: Set[str], module: str) -> str | None:
    """Where a module is looked for next, unless the project ends here. `names`: what lies here."""
    above, _, here = folder.rpartition(os.sep)
    above = above or os.sep
    inside = module.partition(".")[0] == here
    # A package may have a `setup.py` among its modules, as `package.setup`.
    if above == folder or not names.isdisjoint(ROOTS_ONLY if inside else ROOTS):
        return None
    if above.endswith(INSTALLED) and not inside:
        return None
    return above


def _closure(start: set[str], next_to: dict[str, set[str]]) -> set[str]:
    found = set(start)
    waiting = list(start)
    while waiting:
        new = next_to[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _components(
    start: set[str], edges: dict[str, set[str]], callers: dict[str, set[str]]
) -> Iterator[set[str]]:
    """Files that imports connect, one way or the other: what is large is a project, not a run."""
    together = {path: edges[path] | callers[path] for path in edges}
    seen: set[str] = set()
    for path in start:
        if path not in seen:
            found = _closure({path}, together)
            seen |= found
            yield found


def _within_reach(trains: set[str], callers: dict[str, set[str]]) -> set[str]:
    """What trains and whoever imports it, by way of others, too; in large projects, not so far."""
    found = set(trains)
    nearest = trains
    while nearest:
        nearest = {caller for path in nearest for caller in callers[path]} - found
        if len(found) + len(nearest) > MOST_TOGETHER:
            return found
        found |= nearest
    return found


def _callers_first(members: set[str], edges: dict[str, set[str]]) -> list[str]:
    """Depth first, each after all that it imports; then the other way round."""
    order: list[str] = []
    seen: set[str] = set()
    for start in sorted(members, reverse=True):
        stack = [(start, False)]
        while stack:
            path, done = stack.pop()
            if done:
                order.append(path)
            elif path not in seen:
                seen.add(path)
                stack.append((path, True))
                stack += [
                    (other, False) for other in sorted(edges[path] & members) if other not in seen
                ]
    return order[::-1]
