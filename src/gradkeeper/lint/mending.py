"""Fixes applied to a whole file, again and again until none is left to apply."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gradkeeper.lint.edits import apply
from gradkeeper.lint.source_text import decode
from gradkeeper.model.finding import Finding

MOST_ROUNDS = 8
Check = Callable[[bytes], list[Finding]]


@dataclass(slots=True)
class Mended:
    old: str
    new: str
    encoding: str
    fixed: int = 0
    left: tuple[Finding, ...] = ()

    @property
    def raw(self) -> bytes:
        return self.new.encode(self.encoding)


def mend(raw: bytes, findings: Iterable[Finding], check: Check, *, unsafe: bool) -> Mended:
    """One fix may stand in another's way, or show what it had hidden: so each round looks anew."""
    text, encoding = decode(raw)
    mended = Mended(text, text, encoding, left=tuple(findings))
    for _ in range(MOST_ROUNDS):
        usable = [one for one in mended.left if one.fix is not None and (one.fix.safe or unsafe)]
        if not usable:
            break
        mended.new, done = apply(mended.new, usable)
        mended.fixed += len(done)
        mended.left = tuple(check(mended.raw))
    return mended
