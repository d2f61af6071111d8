"""What a rule found, and how findings of one fault fold into one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from gradkeeper.model.site import Site


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


Role = Literal[
    "credited",  # the backward whose gradient it is
    "foreign",  # the backward of another optimizer's loss
    "spent",  # the step that had applied the gradient before
    "stepped",  # the step that comes to apply it
    "zeroed",
    "built",  # where the optimizer was built
    "loaded",
    "saved",
    "fetched",  # where a batch came from the data
    "faulted",  # where an exception came from
    "condition",  # what must hold for the finding to be one
]
"""What happened at a line that explains a finding: for whoever looks for that line."""


@dataclass(frozen=True, slots=True)
class Because:
    """One line that explains a finding."""

    role: Role
    site: Site
    note: str
    cell: int | None = None
    """Of a notebook, in which the site's line is then counted."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the text between two places, each a line and a column from 1."""

    path: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    safe: bool
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    rule: str
    name: str
    severity: Severity
    site: Site
    message: str
    """What happens at the site."""
    detail: str = ""
    """The account's story: credited, spent, zeroed where."""
    remedy: str = ""
    because: tuple[Because, ...] = ()
    certain: bool = True
    count: int = 1
    first_step: int | None = None
    last_step: int | None = None
    rank: int | None = None
    cell: int | None = None
    when: str | None = None
    """A setting under which it holds ("args.amp is false"); None: under all."""
    fix: Fix | None = None

    def rehearsed(self) -> "Finding":
        """Without count and steps: those of a rehearsal say nothing of a run."""
        return replace(self, count=1, first_step=None, last_step=None)

    def where(self, role: Role) -> Site | None:
        """The line that had this part in it; the first, if several had."""
        return next((reason.site for reason in self.because if reason.role == role), None)

    def fingerprint(self, line: str) -> str:
        """By rule, file and the line's text: it survives edits elsewhere in the file."""
        import hashlib  # takes longer to import than most files to check

        text = "\0".join((self.rule, self.path.replace("\\", "/"), line.strip()))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @property
    def counts(self) -> bool:
        """An error or a warning: what is shown, and fails a check, where nobody says otherwise."""
        return self.severity is not Severity.INFO

    @property
    def path(self) -> str:
        """Of the file, as reports show it: relative to the working directory."""
        return self.site.path

    @property
    def line(self) -> int:
        return self.site.line

    @property
    def column(self) -> int:
        return self.site.column


class Findings:
    """Findings folded by rule and line: the first one stays, the rest are counted."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self._folded: dict[tuple[str, str, int, int | None], Finding] = {}
        for finding in findings:
            self.add(finding)

    def add(self, finding: Finding) -> bool:
        """Takes a finding; True if it is the first of its kind."""
        key = (finding.rule, finding.site.file, finding.site.line, finding.cell)
        known = self._folded.get(key)
        if known is None:
            self._folded[key] = finding
            return True
        self._folded[key] = replace(
            known,
            severity=_graver(known.severity, finding.severity),
            certain=known.certain or finding.certain,
            count=known.count + finding.count,
            first_step=_least(known.first_step, finding.first_step),
            last_step=_most(known.last_step, finding.last_step),
            rank=known.rank if known.rank == finding.rank else None,
            when=_either(known.when, finding.when),
        )
        return False

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._folded.values(), key=lambda value: (value.site, value.rule)))

    def __len__(self) -> int:
        return len(self._folded)


def _graver(severity: Severity, other: Severity) -> Severity:
    order = list(Severity)
    return min(severity, other, key=order.index)


def _either(setting: str | None, other: str | None) -> str | None:
    """The setting under which at least one of two findings holds."""
    if setting is None or other is None:
        return None
    return setting if setting == other else f"{setting} or {other}"


def _least(step: int | None, other: int | None) -> int | None:
    known = [number for number in (step, other) if number is not None]
    return min(known, default=None)


def _most(step: int | None, other: int | None) -> int | None:
    known = [number for number in (step, other) if number is not None]
    return max(known, default=None)
