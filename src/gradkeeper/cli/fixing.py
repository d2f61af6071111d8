"""What `check --fix` does to files, and what `check --diff` shows of it."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.streams import complain, tell
from gradkeeper.lint.check import check_bytes
from gradkeeper.lint.fixes import ZEROED, Mended, diff, mend, shared
from gradkeeper.report.text import place

if TYPE_CHECKING:
    from gradkeeper.model.finding import Finding

Wanted = Callable[[list["Finding"], dict[str, bytes]], list["Finding"]]
"""The findings that were asked for, of files whose bytes may not be on disk yet."""


def fix(findings: "list[Finding]", wanted: Wanted, *, unsafe: bool) -> "tuple[list[Finding], bool]":
    """Applies what may be applied. Returns the findings that stay, as they stand afterwards, and
    whether there was something else to say."""
    left: list[Finding] = []
    remarks: list[str] = []
    fixed = 0
    for path, some in _by_file(findings).items():
        if not any(one.fix for one in some):
            left += some
            continue
        mended = _mended(path, _read(path), some, wanted, unsafe=unsafe)
        if mended.fixed:
            _write(path, mended.raw)
        fixed += mended.fixed
        left += mended.left
        remarks += _remarks(path, mended)
    if fixed:
        complain(f"fixed {fixed}, {len(left)} left")
    for remark in remarks:
        complain(remark)
    return left, bool(remarks)


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


def show(
    findings: "list[Finding]", wanted: Wanted, held: dict[str, bytes], *, unsafe: bool
) -> None:
    """Prints what `fix` would change. `held`: what was read from elsewhere than a file."""
    fixed = 0
    remarks: list[str] = []
    for path, some in _by_file(findings).items():
        if any(one.fix for one in some):
            raw = held[path] if path in held else _read(path)
            mended = _mended(path, raw, some, wanted, unsafe=unsafe)
            tell(diff(mended.old, mended.new, path))
            fixed += mended.fixed
            remarks += _remarks(path, mended)
    if findings:
        complain(f"{len(findings)} found, {fixed} would be fixed")
    for remark in remarks:
        complain(remark)


def _by_file(findings: "Iterable[Finding]") -> "dict[str, list[Finding]]":
    found: dict[str, list[Finding]] = {}
    for one in findings:
        found.setdefault(one.site.file, []).append(one)
    return found


def _mended(
    path: str, raw: bytes, findings: "list[Finding]", wanted: Wanted, *, unsafe: bool
) -> Mended:
    def check(new: bytes) -> "list[Finding]":
        return wanted(check_bytes(new, path).findings, {path: new})

    return mend(raw, findings, check, unsafe=unsafe)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise CliError(f"{path} cannot be read again: {error.strerror}") from None


def _write(path: str, raw: bytes) -> None:
    try:
        with open(path, "wb") as stream:
            stream.write(raw)
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}") from None
