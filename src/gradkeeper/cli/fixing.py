"""What `check --fix` does to files, and what `check --diff` shows of it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.streams import complain, tell
from gradkeeper.lint.check import check_bytes, check_program
from gradkeeper.lint.files import Sources
from gradkeeper.lint.fixes import ZEROED, Mended, diff, mend, shared
from gradkeeper.lint.notebook import locate
from gradkeeper.lint.program import Checked
from gradkeeper.report.text import place

if TYPE_CHECKING:
    from gradkeeper.model.finding import Finding
    from gradkeeper.model.rule import Rule

Wanted = Callable[[list["Finding"], Mapping[str, bytes]], list["Finding"]]
"""The findings that were asked for, of files whose bytes may not be on disk yet."""


@dataclass(slots=True)
class FixableProgram:
    """The files that were checked, and what is said of each; fixes change both."""

    checked: dict[str, Checked]
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
        return [finding for some in self.found.values() for finding in some]

    def mend(self) -> None:
        for path in list(self.found):
            if any(finding.fix for finding in self.found[path]):
                self._mend(path)

    def _mend(self, path: str) -> None:
        def check(new: bytes) -> list["Finding"]:
            return self._again(path, {**self.held, path: new}).get(path, [])

        mended = mend(self._read(path), self.found[path], check, unsafe=self.unsafe)
        if not mended.fixed:
            return
        self.held[path], self.mended[path] = mended.raw, mended
        self.found |= self._again(path, self.held)
        if ZEROED in mended.rules:
            self._remark(path)

    def _again(
        self, path: str, held: Mapping[str, bytes], rules: "tuple[Rule, ...] | None" = None
    ) -> dict[str, list["Finding"]]:
        """What is said of a file, and of those that import it, if files hold something else."""
        known = self.checked[path].program if path in self.checked else None
        if known is None:
            again = {path: check_bytes(held[path], path, rules=rules)}
        else:
            affected = replace(known, paths=known.affected_by(path))
            again = check_program(affected, rules=rules, sources=Sources(held))
        if rules is not None:
            return {file: checked.findings for file, checked in again.items()}
        return {file: self.wanted(checked.findings, held) for file, checked in again.items()}

    def _remark(self, path: str) -> None:
        """What steps that now zero go on doing: it may be meant, or it is the other half."""
        told = {(finding.rule, finding.cell, finding.site.line) for finding in self.found[path]}
        for finding in self._again(path, self.held, (shared,)).get(path, []):
            where = (finding.rule, finding.cell, finding.site.line)
            if finding.rule == shared.code and where not in told:
                self.remarks.append(f"{place(finding)}: {finding.message}: {finding.remedy}")

    def _read(self, path: str) -> bytes:
        try:
            return self.held[path] if path in self.held else Sources().read(path)
        except OSError as error:
            raise CliError(f"{path} cannot be read again: {error.strerror}") from None


def fix(program: FixableProgram) -> "tuple[list[Finding], bool]":
    """Applies what may be applied. Returns the findings that stay, as they stand afterwards, and
    whether there was something else to say."""
    program.mend()
    for path, mended in program.mended.items():
        _write(path, mended.raw)
    if program.fixed or program.left:
        complain(f"fixed {program.fixed}, {len(program.left)} left")
    for finding in program.left:
        complain(f"{place(finding)}: {finding.rule} {finding.name}: {_way_out(finding)}")
    for remark in program.remarks:
        complain(remark)
    return program.left, bool(program.remarks)


def show(program: FixableProgram) -> None:
    """Prints what `fix` would change, and beside it what it would leave."""
    before = program.left
    program.mend()
    for path, mended in program.mended.items():
        for shown in _diffs(mended, path):
            tell(shown)
    if before:
        complain(f"{len(before)} found, {program.fixed} would be fixed")
    for line in (*_left(before, program), *program.remarks):
        complain(line)


def _diffs(mended: Mended, path: str) -> Iterator[str]:
    """Of a notebook cell by cell: its file may be a single line of JSON."""
    if not path.endswith(".ipynb"):
        yield diff(mended.old, mended.new, path)
        return
    new = locate(mended.new)
    for number, cell in locate(mended.old).items():
        if cell.text != new[number].text:
            before, after = (side.text.removesuffix("\n") for side in (cell, new[number]))
            yield diff(f"{before}\n", f"{after}\n", f"{path}:cell {number}")


def _left(before: list["Finding"], program: FixableProgram) -> Iterator[str]:
    """What stays, where it stands now; then what a fix brings to light."""
    after = Counter((finding.site.file, finding.rule) for finding in program.left)
    for finding in before:
        kind = (finding.site.file, finding.rule)
        usable = finding.fix is not None and (finding.fix.safe or program.unsafe)
        if after[kind] and not usable:
            after[kind] -= 1
            yield f"{_line(finding)} ({_way_out(finding)})"
    for finding in program.left:
        kind = (finding.site.file, finding.rule)
        if after[kind]:
            after[kind] -= 1
            yield f"{_line(finding)} (once that is fixed)"


def _way_out(finding: "Finding") -> str:
    return "--unsafe-fixes would fix it" if finding.fix else "no automatic fix"


def _line(finding: "Finding") -> str:
    return f"{place(finding)}: {finding.rule} {finding.name}: {finding.message}"


def _write(path: str, raw: bytes) -> None:
    try:
        with open(path, "wb") as stream:
            stream.write(raw)
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}") from None
