"""What `check --fix` does to files, and what `check --diff` shows of it.

A fix is tried on the whole program: it must bring nothing new to the files that import its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.streams import complain, tell
from gradkeeper.lint.check import check_bytes
from gradkeeper.lint.files import Sources, importers
from gradkeeper.lint.fixes import ZEROED, Mended, diff, mend, shared
from gradkeeper.report.text import place

if TYPE_CHECKING:
    from gradkeeper.model.finding import Finding

Wanted = Callable[[list["Finding"], Mapping[str, bytes]], list["Finding"]]
"""The findings that were asked for, of files whose bytes may not be on disk yet."""


@dataclass(slots=True)
class Program:
    """The files that were checked together, and what is said of each; fixes change both."""

    paths: Sequence[str]
    wanted: Wanted
    found: dict[str, list["Finding"]]
    held: dict[str, bytes]
    """What is not on disk: standard input, and what was fixed so far."""
    unsafe: bool
    mended: dict[str, Mended] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def fixed(self) -> int:
        return sum(mended.fixed for mended in self.mended.values())

    @property
    def left(self) -> list["Finding"]:
        return [one for some in self.found.values() for one in some]

    def mend(self) -> None:
        for path in list(self.found):
            if any(one.fix for one in self.found[path]):
                self._mend(path)

    def _mend(self, path: str) -> None:
        def check(new: bytes) -> list["Finding"]:
            return self._check(path, {**self.held, path: new})

        mended = mend(self._read(path), self.found[path], check, unsafe=self.unsafe)
        if not mended.fixed:
            return
        held = {**self.held, path: mended.raw}
        elsewhere = {
            one: self._check(one, held) for one in importers(path, self.paths, Sources(held))
        }
        for other, after in elsewhere.items():
            news = _news(self.found.get(other, []), after)
            if news:
                self.remarks.append(f"{path} is left as it is: its fix brings {_named(news[0])}")
                return
        self.held, self.mended[path] = held, mended
        self.found |= {path: list(mended.left), **elsewhere}
        self.remarks += _remarks(path, mended)

    def _check(self, path: str, held: Mapping[str, bytes]) -> list["Finding"]:
        raw = held[path] if path in held else self._read(path)
        return self.wanted(check_bytes(raw, path, sources=Sources(held)).findings, held)

    def _read(self, path: str) -> bytes:
        try:
            return self.held[path] if path in self.held else Sources().read(path)
        except OSError as error:
            raise CliError(f"{path} cannot be read again: {error.strerror}") from None


def fix(program: Program) -> "tuple[list[Finding], bool]":
    """Applies what may be applied. Returns the findings that stay, as they stand afterwards, and
    whether there was something else to say."""
    program.mend()
    for path, mended in program.mended.items():
        _write(path, mended.raw)
    if program.fixed:
        complain(f"fixed {program.fixed}, {len(program.left)} left")
    for remark in program.remarks:
        complain(remark)
    return program.left, bool(program.remarks)


def show(program: Program) -> None:
    """Prints what `fix` would change."""
    before = len(program.left)
    program.mend()
    for path, mended in program.mended.items():
        tell(diff(mended.old, mended.new, path))
    if before:
        complain(f"{before} found, {program.fixed} would be fixed")
    for remark in program.remarks:
        complain(remark)


def _news(before: "list[Finding]", after: "list[Finding]") -> "list[Finding]":
    """Lines of a file that was not changed are the same lines."""
    known = {(one.rule, one.cell, one.site.line) for one in before}
    return [one for one in after if (one.rule, one.cell, one.site.line) not in known]


def _named(finding: "Finding") -> str:
    return f"{finding.rule} {finding.name} to {place(finding)}"


def _remarks(path: str, mended: Mended) -> list[str]:
    """What the steps that now zero go on doing: it may be meant, and it may be the other half."""
    if ZEROED not in mended.rules:
        return []
    told = {(one.rule, one.cell, one.site.line) for one in mended.left}
    found = check_bytes(mended.raw, path, fixes=False, rules=(shared,)).findings
    return [
        f"{place(one)}: {one.message}: {one.remedy}"
        for one in found
        if one.rule == shared.code and (one.rule, one.cell, one.site.line) not in told
    ]


def _write(path: str, raw: bytes) -> None:
    try:
        with open(path, "wb") as stream:
            stream.write(raw)
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}") from None
