"""The state a ledger keeps, and the small changes that its handlers are made of."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gradkeeper.model import account as accounts
from gradkeeper.model.account import MOST_FRESH, Account
from gradkeeper.model.credit import Credit, CreditLine, Excuse, Order, Trail, Waste
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Event, Names
from gradkeeper.model.fast_replace import build, replace
from gradkeeper.model.optimizer import Optimizer, Scaler
from gradkeeper.model.site import Site
from gradkeeper.model.window import batches_in

E = TypeVar("E", bound=Event)
MOST_OWNER_SETS = 256


@dataclass(slots=True)
class Books:
    accounts: dict[str, Account] = field(default_factory=dict)
    optimizers: dict[str, Optimizer] = field(default_factory=dict)
    scalers: dict[str, Scaler] = field(default_factory=dict)
    credits: dict[int, Credit] = field(default_factory=dict)
    """The backwards that still wait in some account, by number."""
    left_idle: dict[str, Optimizer] = field(default_factory=dict)
    """Optimizers whose books were closed before they had stepped, by name."""
    replaced: dict[str, Optimizer] = field(default_factory=dict)
    """Those that had not stepped when another was built in their place, by name."""
    trails: dict[CreditLine, Trail] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    between_epochs: set[str] = field(default_factory=set)
    orders: dict[str, Order] = field(default_factory=dict)
    """By sampler: in which order it gives the data out."""
    resumed: dict[str, Site] = field(default_factory=dict)
    """By loader: where it was last told where in its data to go on."""
    sampler_of: dict[str, str] = field(default_factory=dict)
    """By loader, or by the loop over it."""
    batch: int = 0
    fetched: dict[str, int] = field(default_factory=dict)
    """Batches of each source, each counted once, though it may be told when it is fetched and when
    it is used."""
    source: str = ""
    number: int = 0
    """Events posted so far."""
    steps: int = 0
    real_steps: int = 0
    saves: dict[Site, int] = field(default_factory=dict)
    """By line: after how many steps it last saved with nothing waiting."""
    written: dict[str, tuple[Site, Names]] = field(default_factory=dict)
    """By file: the line that last saved to it, and which accounts."""
    unseen: bool = False
    """Some backward may have reached more than is known."""
    escaped: bool = False
    """Code that was not seen may have its hands on everything."""
    kept: bool = False
    """It may keep everything."""
    owner_sets: dict[tuple[tuple[str, ...], ...], frozenset[str]] = field(default_factory=dict)
    """Made once for each combination of owners, since every backward asks."""

    def account(self, name: str) -> Account:
        found = self.accounts.get(name)
        if found is None:
            found = self.accounts[name] = Account(name, escaped=self.escaped, kept=self.kept)
        return found

    def optimizer(self, name: str, site: Site) -> Optimizer:
        found = self.optimizers.get(name) or self._back_again(name)
        if found is None:
            found = self.optimizers[name] = Optimizer(
                name, site, escaped=self.escaped, kept=self.kept
            )
        return found

    def _back_again(self, name: str) -> Optimizer | None:
        """One that seemed to have been replaced before it was used, and steps after all."""
        found = self.replaced.pop(name, None)
        if found is None:
            return None
        self.optimizers[name] = found
        for held in found.accounts:
            account = self.account(held)
            owners = dict.fromkeys((*account.owners, name))
            self.accounts[held] = replace(account, owners=tuple(owners))
        return found

    def owners_of(self, names: Iterable[str]) -> frozenset[str]:
        """Whose accounts these are."""
        key = tuple([self.account(name).owners for name in names])
        found = self.owner_sets.get(key)
        if found is None:
            if len(self.owner_sets) == MOST_OWNER_SETS:
                self.owner_sets.clear()
            found = self.owner_sets[key] = frozenset(owner for owners in key for owner in owners)
        return found

    def fresh(self, names: Iterable[str]) -> list[int]:
        """The backwards that wait in these accounts, in order."""
        waiting = [number for name in names for number in self.account(name).fresh]
        return list(dict.fromkeys(waiting))

    def entry(
        self, event: E, before: dict[str, Account], after: dict[str, Account], **facts: Any
    ) -> Entry[E]:
        owner = facts.get("owner")
        return build(
            Entry,
            event=event,
            step=owner.steps if owner else self.steps,
            batch=self.batch,
            before=before,
            after=after,
            idle=self.real_steps == 0,
            unseen=self.unseen,
            **facts,
        )

    def change(
        self,
        event: E,
        names: Iterable[str],
        change: Callable[[Account], Account],
        **facts: Any,
    ) -> Entry[E]:
        before = {name: self.account(name) for name in names}
        after = {name: change(account) for name, account in before.items()}
        self.accounts |= after
        return self.entry(event, before, after, **facts)

    def untouched(self, event: E, names: Iterable[str], **facts: Any) -> Entry[E]:
        same = {name: self.account(name) for name in names}
        return self.entry(event, same, same, **facts)

    def credit(
        self,
        event: E,
        credit: Credit,
        *,
        scaler: str | None = None,
        synced: bool | None = None,
    ) -> Entry[E]:
        owners = credit.owners
        line = (credit.site, owners)
        trail = self.trails.get(line) or Trail(credit.site, credit.accounts, owners)
        reached = trail.accounts
        if reached != credit.accounts:
            reached = tuple(dict.fromkeys((*reached, *credit.accounts)))
        early = trail.early + (trail.early == trail.made and self._before_training(owners))
        self.trails[line] = replace(trail, made=trail.made + 1, early=early, accounts=reached)
        if credit.accounts:
            self.credits[credit.number] = credit
        for name in credit.accounts:
            account = self.account(name)
            if len(account.fresh) == MOST_FRESH:
                self.excuse(account.fresh[0], "waived")
                self.let_go(account.fresh[0])

        def credited(account: Account) -> Account:
            return accounts.credited(account, credit.number, scaler=scaler, synced=synced)

        return self.change(event, credit.accounts, credited)

    def excuse(self, number: int, why: Excuse) -> None:
        credit = self.credits[number]
        if credit.excuse is None:
            self.credits[number] = replace(credit, excuse=why)

    def excuse_fresh(self, names: Iterable[str], why: Excuse) -> None:
        for number in self.fresh(names):
            self.excuse(number, why)

    def lose_sight(self, names: Iterable[str]) -> None:
        """What waits in these accounts may be spent by code that is not seen."""
        for number in self.fresh(names):
            credit = self.credits[number]
            line = (credit.site, credit.owners)
            self.trails[line] = replace(self.trails[line], out_of_sight=True)

    def let_go(self, number: int) -> Credit | None:
        """One account gives up a backward. Returns it if that was the last hope of spending it."""
        credit = self.credits[number]
        if credit.held > 1:
            self.credits[number] = replace(credit, held=credit.held - 1)
            return None
        del self.credits[number]
        if credit.spent_by or credit.restored or credit.excuse not in (None, "leaf"):
            return None
        return credit

    def settle(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            credit = self.credits.get(number)
            if credit and credit.settled_at is None:
                self.credits[number] = replace(credit, settled_at=self.number)

    def waste(self, lost: list[Credit], site: Site, zeroed: Iterable[Account]) -> tuple[Waste, ...]:
        """Notes backwards that will never be spent, in every account they had credited."""
        if not lost:
            return ()
        owners = {owner for account in zeroed for owner in account.owners}
        by_line: dict[tuple[CreditLine, bool], list[Credit]] = {}
        for credit in lost:
            line = (credit.site, credit.owners)
            by_line.setdefault((line, credit.excuse == "leaf"), []).append(credit)
        wasted = []
        for (line, leaf), credits in by_line.items():
            tail = self._is_tail(credits, owners)
            waste = Waste(line[0], site, len(credits), line[1], tail=tail, leaf=leaf)
            wasted.append(waste)
            count = len(credits) if waste.counts else 0
            self.trails[line] = self.trails[line].discarded(count, site)
            for name in {name for credit in credits for name in credit.accounts}:
                self._note(name, waste)
        return tuple(wasted)

    def _before_training(self, owners: Iterable[str]) -> bool:
        known = (self.optimizers.get(name) for name in owners)
        return not any(owner.trains for owner in known if owner)

    def _note(self, name: str, waste: Waste) -> None:
        account = self.accounts.get(name)
        if account is None:
            return
        for place, known in enumerate(account.wasted):
            if replace(known, count=waste.count) == waste:
                more = replace(known, count=known.count + waste.count)
                noted = (*account.wasted[:place], more, *account.wasted[place + 1 :])
                break
        else:
            noted = (*account.wasted, waste)
        self.accounts[name] = replace(account, wasted=noted)

    def unwaste(self, waste: Waste) -> None:
        line = (waste.site, waste.owners)
        trail = self.trails[line]
        if waste.counts:
            self.trails[line] = replace(trail, wasted=max(0, trail.wasted - waste.count))

    def lines(self) -> list[Trail]:
        """One trail for each line, whomever it reached; that of one owner where it loses alike
        before each of its steps, for which the others' spending does not make up."""
        joined: dict[Site, Trail] = {}
        for trail in self.trails.values():
            known = joined.get(trail.site)
            joined[trail.site] = known.joined(trail) if known else trail
        regular = {
            trail.site: trail for trail in self.trails.values() if trail.regular and not trail.told
        }
        return list({**joined, **regular}.values())

    def _is_tail(self, credits: list[Credit], owners: Iterable[str]) -> bool:
        """The incomplete last window of an epoch that is over."""
        last = credits[-1]
        over = last.source in self.between_epochs or self.epochs.get(last.source, 0) != last.epoch
        if not over:
            return False
        windows = [self.optimizers[name].window for name in owners]
        return any(
            window.site == last.site and batches_in(credits) < window.size
            for window in windows
            if window
        )

    def forget(self, owner: Optimizer) -> None:
        self.optimizers.pop(owner.name, None)
        for name in owner.accounts:
            account = self.accounts[name]
            owners = tuple(other for other in account.owners if other != owner.name)
            self.accounts[name] = replace(account, owners=owners)

    def drop(self, name: str) -> None:
        account = self.accounts.pop(name)
        for number in account.fresh:
            self.let_go(number)
