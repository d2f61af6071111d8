"""A journal entry: one event, and the books before and after it. All that a rule may read."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from gradkeeper.model.account import Account, Lot
from gradkeeper.model.credit import Credit, Trail, Waste
from gradkeeper.model.events import Event
from gradkeeper.model.optimizer import Optimizer, Scaler
from gradkeeper.model.site import Site
from gradkeeper.model.window import Window

AGAIN_AND_AGAIN = 3
"""So often a line's gradients came or were lost, to call it a habit that nobody steps."""

E = TypeVar("E", bound=Event, covariant=True)


class _EmptyMapping(Mapping[Any, Any]):
    """An empty mapping that can be a dataclass's default: it never changes."""

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    __hash__ = object.__hash__


NOTHING = _EmptyMapping()


@dataclass(frozen=True)
class Entry(Generic[E]):
    event: E
    step: int
    """Steps so far: of the optimizer concerned, else of all."""
    batch: int
    before: Mapping[str, Account]
    after: Mapping[str, Account]
    owner: Optimizer | None = None
    """The optimizer concerned, before the event."""
    spent: tuple[Credit, ...] = ()
    """At a step: the waiting backwards it spends, as they were before."""
    window: Window | None = None
    orphans: tuple[Account, ...] = ()
    """At a step: trainable accounts without owner that the same backwards reached, as before."""
    wasted: tuple[Waste, ...] = ()
    """At a step: what was thrown away of the lines it spends. At a zero: what is lost here."""
    trails: tuple[Trail, ...] = ()
    """The lines that `wasted` speaks of, counted to this event; at the close, all lines."""
    scaler: Scaler | None = None
    idle: bool = False
    """No step of anyone has had anything to spend so far."""
    unseen: bool = False
    """Some backward so far may have reached more than is known."""
    optimizers: Mapping[str, Optimizer] = NOTHING
    """At the close: those whose books are closed."""
    thrown_away: frozenset[str] = frozenset()
    """At the close: accounts of which some backward was lost, whosever books are closed."""
    left_idle: Mapping[str, Optimizer] = NOTHING
    """At the close: those whose books were closed before, and who had never stepped; with the
    accounts that nobody had used."""
    pending: Mapping[int, Credit] = NOTHING
    """The backwards that still wait, at a zero or at the close."""
    resumed: Site | None = None
    """At a batch that overran its loader: where that was told where to go on."""
    spends: bool = False
    """A step that was taken, or weights moved along their gradient by hand."""
    rounds: "tuple[tuple[Entry[Event], ...], ...]" = ()
    """At a repetition: what its first two rounds changed; all further ones are like the second."""

    @property
    def empty(self) -> bool:
        """A step that found nothing, not even what was spent before."""
        return self.spends and not any(
            account.fresh or account.lots for account in self.before.values()
        )

    @property
    def escaped(self) -> bool:
        """The optimizer concerned, or some of its accounts, went to code that was not seen."""
        gone = self.owner is not None and self.owner.escaped
        return gone or any(account.escaped for account in self.before.values())

    @property
    def adjusted(self) -> bool:
        """Somebody changed the gradients by hand since they came: their weight is not known."""
        return any(account.adjusted for account in self.before.values())

    def owners_of(self, trail: Trail) -> list[Optimizer]:
        """At the close: the optimizers that could have spent what a line made."""
        accounts = [self.before[name] for name in trail.accounts if name in self.before]
        names = dict.fromkeys(name for account in accounts for name in account.owners)
        present = [self.optimizers[name] for name in names if name in self.optimizers]
        gone = [optimizer for name, optimizer in self.left_idle.items() if name in trail.owners]
        return [
            *present,
            *(
                optimizer
                for optimizer in gone
                if not set(optimizer.accounts).isdisjoint(trail.accounts)
            ),
        ]

    def idle_owners_of(self, trail: Trail) -> list[Optimizer]:
        """At the close: those of them that never stepped, and for which nobody else did, though the
        line has lost gradients again and again."""
        if trail.spent or trail.wasted + self.waiting.get(trail.site, 0) < AGAIN_AND_AGAIN:
            return []
        return [
            owner
            for owner in self.owners_of(trail)
            if not owner.trains and not any(account.used for account in self.held_by(owner, trail))
        ]

    @property
    def left_out(self) -> dict[Optimizer, Trail]:
        """At the close: optimizers that never stepped, though they were zeroed again and again,
        with the line whose backwards others have spent beside them."""
        found: dict[Optimizer, Trail] = {}
        for trail in self.trails:
            if trail.spent < AGAIN_AND_AGAIN:
                continue
            for owner in self.owners_of(trail):
                accounts = self.held_by(owner, trail)
                if accounts and not owner.trains and all(map(_is_left_out, accounts)):
                    found.setdefault(owner, trail)
        return found

    def all_cleared(self, trail: Trail) -> bool:
        """At the close: all of a line was thrown away, but for what came last."""
        return not trail.spent and trail.wasted > self.waiting.get(trail.site, 0) <= 1

    def works_elsewhere(self, owner: Optimizer) -> bool:
        """At the close: another optimizer that the same line has built did step, and the two came
        one after the other: those that are built in a row, before any step, are meant to step
        each."""
        return any(
            optimizer.real and optimizer.site == owner.site and optimizer.since != owner.since
            for optimizer in self.optimizers.values()
        )

    def held_by(self, owner: Optimizer, trail: Trail) -> list[Account]:
        """The accounts of an optimizer that a line reached."""
        shared = set(owner.accounts).intersection(trail.accounts)
        return [self.before[name] for name in shared if name in self.before]

    @cached_property
    def waiting(self) -> Mapping[Site, int]:
        """At the close: how many backwards of each line still wait for a step, without excuse."""
        return Counter(
            credit.site
            for credit in self.pending.values()
            if not credit.spent_by and not credit.excuse
        )

    @cached_property
    def stale(self) -> dict[str, tuple[Lot, ...]]:
        """By account: what this step spends although its owner has spent it before."""
        if not self.spends or self.owner is None:
            return {}
        stale = {name: account.stale_for(self.owner.name) for name, account in self.before.items()}
        return {name: lots for name, lots in stale.items() if lots}

    @cached_property
    def zeroed_beside(self) -> tuple[Account, ...]:
        """Accounts of this step that were zeroed since the last one, while others are stale."""
        stale = self.stale
        return tuple(
            account
            for name, account in self.before.items()
            if name not in stale and account.zeroed_at
        )


def _is_left_out(account: Account) -> bool:
    """Credited and zeroed again and again, by all that was seen, and never applied."""
    if account.used or account.escaped or account.kept or not account.zeroed_at:
        return False
    return account.trainable and account.credited >= AGAIN_AND_AGAIN
