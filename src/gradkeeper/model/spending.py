"""What a step spends: from whom, how often before, with what left lying about."""

from collections import Counter
from typing import TypeVar

from gradkeeper.model import account as accounts
from gradkeeper.model.account import Account, Lot
from gradkeeper.model.books import Books
from gradkeeper.model.credit import Credit, CreditLine, Trail, Waste
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Event
from gradkeeper.model.fast_replace import build, replace
from gradkeeper.model.optimizer import Optimizer, Scaler
from gradkeeper.model.site import Site
from gradkeeper.model.window import window_of

E = TypeVar("E", bound=Event)


def spend(
    books: Books, event: E, owner: Optimizer, names: tuple[str, ...], scaler: Scaler | None
) -> Entry[E]:
    before = {name: books.account(name) for name in names}
    real = any(account.fresh or account.lots for account in before.values())
    credits = tuple(books.credits[number] for number in books.fresh(names))
    window = window_of(credits, books.fetched, owner.window)
    idle = books.real_steps == 0
    books.steps += 1
    books.real_steps += real

    wasted = _wasted(before, {credit.site for credit in credits}, real=real)
    orphans = _bypass(books, credits)
    _mark_spent(books, owner, before, credits)
    after = {
        name: accounts.spent(account, owner.name, event.site, _lots(books, account, event.site))
        for name, account in before.items()
    }
    books.accounts |= after
    _release(books, credits)
    trails = _follow(books, credits, wasted, event.site)
    books.optimizers[owner.name] = _stepped(owner, event.site, real=real, window=window)
    return build(
        Entry,
        event=event,
        step=owner.steps + 1,
        batch=books.batch,
        before=before,
        after=after,
        owner=owner,
        spent=credits,
        window=window,
        orphans=orphans,
        wasted=wasted,
        trails=trails,
        scaler=scaler,
        idle=idle,
        unseen=books.unseen,
        spends=True,
    )


def _stepped(owner: Optimizer, site: Site, *, real: bool, window: object) -> Optimizer:
    return replace(
        owner,
        real=owner.real + real,
        empty=owner.empty + (not real),
        stepped_at=site,
        window=window or owner.window,
        ticks=(),
        restored_at=None,
    )


def _wasted(before: dict[str, Account], spent_lines: set[Site], *, real: bool) -> tuple[Waste, ...]:
    """What was thrown away since the last step, of the lines spent now; of all, if none is."""
    relevant: dict[tuple[Site, frozenset[str], Site], Waste] = {}
    for account in before.values():
        for waste in account.wasted:
            if waste.tail or (waste.leaf and real):
                continue
            if waste.site in spent_lines or not real:
                relevant[waste.site, waste.owners, waste.zeroed_at] = waste
    return tuple(relevant.values())


def _bypass(books: Books, credits: tuple[Credit, ...]) -> tuple[Account, ...]:
    """The trainable accounts without owner that these backwards reached."""
    names = dict.fromkeys(name for credit in credits for name in credit.accounts)
    found = (books.accounts.get(name) for name in names)
    orphans = tuple(
        account for account in found if account and account.trainable and not account.owners
    )
    for orphan in orphans:
        books.accounts[orphan.name] = replace(orphan, bypassed=orphan.bypassed + 1)
    return orphans


def _mark_spent(
    books: Books, owner: Optimizer, before: dict[str, Account], credits: tuple[Credit, ...]
) -> None:
    held = Counter(number for account in before.values() for number in account.fresh)
    for credit in credits:
        books.credits[credit.number] = replace(
            credit,
            held=credit.held - held[credit.number],
            spent_by=credit.spent_by | {owner.name},
            spent_at=credit.spent_at or books.number,
        )


def _lots(books: Books, account: Account, site: Site) -> tuple[Lot, ...]:
    """The fresh backwards of one account as lots that nobody has spent yet, one per line."""
    lots: dict[Site, list[int]] = {}
    for number in account.fresh:
        lots.setdefault(books.credits[number].site, []).append(number)
    return tuple(
        Lot(
            site=line,
            spent_at=site,
            owners=frozenset(),
            count=len(numbers),
            pending=tuple(number for number in numbers if books.credits[number].held),
        )
        for line, numbers in lots.items()
    )


def _release(books: Books, credits: tuple[Credit, ...]) -> None:
    for credit in credits:
        if not books.credits[credit.number].held:
            del books.credits[credit.number]


def _follow(
    books: Books, credits: tuple[Credit, ...], wasted: tuple[Waste, ...], site: Site
) -> tuple[Trail, ...]:
    """Brings the trails of the lines concerned up to this step; returns those with waste."""
    unspent = [credit for credit in credits if not credit.spent_by]
    first_spent = Counter((credit.site, credit.owners) for credit in unspent)
    lost = Counter[CreditLine]()
    late = Counter[CreditLine]()
    for waste in wasted:
        lost[waste.site, waste.owners] += waste.count
        late[waste.site, waste.owners] += waste.count if waste.leaf else 0
    for line in first_spent.keys() | lost.keys():
        trail = books.trails[line]
        trail = replace(
            trail,
            spent=trail.spent + first_spent[line],
            wasted=trail.wasted + late[line],
            steps=trail.steps + 1,
        )
        if line in lost:
            losses = dict.fromkeys((*trail.losses, lost[line]))
            trail = replace(trail, short=trail.short + 1, losses=tuple(losses)[:3], stepped_at=site)
        books.trails[line] = replace(trail, told=trail.told or trail.systematic)
    return tuple(books.trails[line] for line in lost)
