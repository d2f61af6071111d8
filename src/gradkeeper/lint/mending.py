"""Fixes applied to a whole file, again and again until none is left to apply."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gradkeeper.lint.edits import apply
from gradkeeper.lint.source_text import decode
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.rule import Rule

MOST_ROUNDS = 8
Check = Callable[[bytes], list[Finding]]


@dataclass(slots=True)
class Mended:
    old: str
    new: str
    encoding: str
    fixed: int = 0
    left: tuple[Finding, ...] = ()
    rules: frozenset[str] = frozenset()
    """Those whose findings were fixed."""

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
        mended.rules |= {one.rule for one in done}
        mended.left = tuple(check(mended.raw))
    return mended


ZEROED = "GK101"
"""What is fixed by zeroing after a step; whatever else the step applies, it goes on applying."""
shared = Rule("GK104", "foreign-gradient", Severity.INFO, "")
"""Never told by itself, because it may be meant. Who has just fixed the step should know."""


@shared.at(Step)
def _also_spends(entry: Entry[Step]) -> Iterator[Finding]:
    if entry.owner is None:
        return
    here, owner = entry.event.site, entry.owner.name
    own = {credit.site for credit in entry.spent if not credit.spent_by}
    for credit in entry.spent:
        if own and credit.spent_by and credit.site not in own:
            first = " and ".join(f"`{name}`" for name in sorted(credit.spent_by))
            yield shared.found(
                entry,
                f"`{owner}` still applies the gradient of {credit.site.seen_from(here)} as well, "
                f"which {first} has applied",
                detail="",
                remedy=f"if that loss is for {first} alone, detach() what it gets from `{owner}`",
            )
            return
