"""What one backward produced, and what became of it. Shared by all accounts it credited."""

from dataclasses import dataclass
from typing import Literal

from gradkeeper.model.events import Reduction
from gradkeeper.model.fast_replace import replace
from gradkeeper.model.site import Site

Excuse = Literal["read", "moved", "leaf", "waived", "closure", "torn"]


OFTEN = 8
"""Steps after which what was lost before each of them is a habit."""

CreditLine = tuple[Site, frozenset[str]]
"""Where a backward stands, and whose accounts it reached."""


@dataclass(frozen=True)
class Credit:
    """One backward. `number` is its place in the journal; None stands for what is not known."""

    number: int
    site: Site
    accounts: tuple[str, ...]
    batch: int = 0
    source: str = ""
    epoch: int = 0
    multiplier: float | None = None
    reduction: Reduction | None = None
    items: int | None = None
    ignored: int | None = None
    scaler: str | None = None
    scale_round: int = 0
    autocast: str | None = None
    coupled: bool = False
    unseen: bool = False
    """A part of the loss comes from code that was not seen."""
    twice: int | None = None
    """The number by which its loss was divided two times over."""
    same_order: Site | None = None
    """The loop over its data, if that comes in the order of the epoch before."""
    by_hand: bool = False
    restored: bool = False

    owners: frozenset[str] = frozenset()
    """Whose accounts it reached when it came."""
    held: int = 0
    """In how many accounts it still waits to be spent."""
    spent_by: frozenset[str] = frozenset()
    settled_at: int | None = None
    """When it was zeroed in an account where it had been spent."""
    spent_at: int | None = None
    """When the first step spent it, as a place in the journal."""
    excuse: Excuse | None = None
    """Why throwing it away would be no loss."""
    torn: bool = False
    faulted_at: Site | None = None
    saved_at: Site | None = None
    saved_to_resume: bool = False
    outlived: Site | None = None
    """Where newer weights were loaded from disk while it waited."""

    def reaches_beyond(self, other: "Credit") -> bool:
        """It reaches another optimizer's accounts as well: a helper's `backward()` has one line for
        all losses, and a generator's goes through the discriminator."""
        return self.owners > other.owners


@dataclass(frozen=True)
class Order:
    """The order in which a sampler gives out the data of one epoch."""

    sampler: str
    seed: int
    site: Site
    trained: bool = False
    """Some backward was made of it: it is no look at the data, nor an evaluation."""
    same: bool = False
    """That of the epoch before, which was trained on to its end."""


@dataclass(frozen=True)
class Trail:
    """What became of the backwards of one line, as far as they reached the same owners.

    A helper's `backward()` serves several optimizers: what one of them loses, the others' spending
    does not make up for.
    """

    site: Site
    accounts: tuple[str, ...]
    owners: frozenset[str] = frozenset()
    made: int = 0
    spent: int = 0
    wasted: int = 0
    early: int = 0
    """Of those made, the first ones: none of their optimizers had stepped yet."""
    zeroed_at: Site | None = None
    """The line that threw most of it away."""
    lead: int = 0
    """By how many it did so more often than all others together, since they were last even."""
    steps: int = 0
    """Steps that spent some of this line, or found some of it thrown away."""
    short: int = 0
    """Those among them that found some of it thrown away."""
    losses: tuple[int, ...] = ()
    """How many were thrown away before one step, each number once; no more than tell a habit."""
    stepped_at: Site | None = None
    """The last step that found some of it thrown away."""
    told: bool = False
    """It has been systematic before."""
    out_of_sight: bool = False
    """Some of it waited while code was called that was not seen, and may have spent it."""

    @property
    def habitual(self) -> bool:
        """More often thrown away than spent: a habit, not a bad batch skipped now and then."""
        return self.wasted > 0 and self.wasted >= self.spent

    @property
    def probe(self) -> bool:
        """It ran before training only, and none of it was spent: a trial of what fits, a scan."""
        return not self.spent and self.early == self.made

    @property
    def regular(self) -> bool:
        """Each of its few steps found as many thrown away."""
        return self.habitual and 2 <= self.short == self.steps and len(self.losses) == 1

    @property
    def systematic(self) -> bool:
        """A habit beyond doubt, whatever comes later: what is lost does not depend on the data.

        No step has anything of the line to spend; or every step finds some of it gone (but for
        the first, whose window may be one batch), and always as many, or one of two numbers where
        the last window of an epoch is short. Batches that are skipped for their norm or loss come
        as they come: were it every second one, one run of two thousand would look like this.
        """
        if not self.habitual:
            return False
        if not self.spent:
            return self.short >= 2
        return self.short >= OFTEN and self.steps - self.short <= 1 and len(self.losses) <= 2

    def discarded(self, count: int, site: Site) -> "Trail":
        """So many more were thrown away here."""
        lead = self.lead + count if site == self.zeroed_at else self.lead - count
        where = site if self.zeroed_at is None or lead < 0 else self.zeroed_at
        return replace(self, wasted=self.wasted + count, zeroed_at=where, lead=abs(lead))

    def joined(self, other: "Trail") -> "Trail":
        """Both as one, for all owners of the line."""
        return replace(
            self,
            accounts=tuple(dict.fromkeys((*self.accounts, *other.accounts))),
            owners=self.owners | other.owners,
            made=self.made + other.made,
            spent=self.spent + other.spent,
            wasted=self.wasted + other.wasted,
            early=self.early + other.early,
            zeroed_at=self.zeroed_at or other.zeroed_at,
            steps=self.steps + other.steps,
            short=self.short + other.short,
            losses=tuple(dict.fromkeys((*self.losses, *other.losses)))[:3],
            stepped_at=self.stepped_at or other.stepped_at,
            told=self.told or other.told,
            out_of_sight=self.out_of_sight or other.out_of_sight,
        )


@dataclass(frozen=True)
class Waste:
    """Backwards of one line that were zeroed before anything of them was spent."""

    site: Site
    zeroed_at: Site
    count: int
    owners: frozenset[str] = frozenset()
    tail: bool = False
    """They were the incomplete last window of an epoch."""
    leaf: bool = False
    """They fed an input too, and were no loss, unless the next step has nothing else to spend."""

    @property
    def counts(self) -> bool:
        """Lost at once, whatever the next step finds."""
        return not self.tail and not self.leaf
