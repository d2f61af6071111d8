"""What comes into .grad, is done to it there, and is thrown away."""

from gradkeeper.model import account as accounts
from gradkeeper.model import events as ev
from gradkeeper.model.account import Account
from gradkeeper.model.books import Books
from gradkeeper.model.credit import Credit
from gradkeeper.model.entry import Entry
from gradkeeper.model.fast_replace import build, replace
from gradkeeper.model.site import Site


def on_forward(books: Books, event: ev.Forward) -> Entry[ev.Forward]:
    def forwarded(account: Account) -> Account:
        if account.forwarded and account.zeroed_late is None:
            return account  # as of most layers, whose network was told of before
        return replace(account, forwarded=True, zeroed_late=None)

    return books.change(event, event.accounts, forwarded)


def on_backward(books: Books, event: ev.Backward) -> Entry[ev.Backward]:
    if event.within:
        _note_evaluation(books, event)
    scaler = books.scalers.get(event.scaler) if event.scaler else None
    books.unseen = books.unseen or event.unseen
    credit = build(
        Credit,
        number=books.number,
        site=event.site,
        accounts=event.accounts,
        owners=books.owners_of(event.accounts),
        batch=books.batch,
        source=books.source,
        epoch=books.epochs.get(books.source, 0),
        multiplier=event.multiplier,
        reduction=event.reduction,
        items=event.items,
        ignored=event.ignored,
        scaler=event.scaler,
        scale_round=scaler.rounds if scaler else 0,
        autocast=event.autocast,
        coupled=event.coupled,
        unseen=event.unseen,
        twice=event.twice,
        same_order=_same_order(books),
        held=len(event.accounts),
        excuse="leaf" if event.leaf else "closure" if event.within else None,
    )
    return books.credit(event, credit, scaler=event.scaler, synced=event.synced)


def _same_order(books: Books) -> Site | None:
    """Training goes on with the data of this order."""
    order = books.orders.get(books.sampler_of.get(books.source, ""))
    if order is None:
        return None
    if not order.trained:
        books.orders[order.sampler] = replace(order, trained=True)
    return order.site if order.same else None


def _note_evaluation(books: Books, event: ev.Backward) -> None:
    """A closure runs: is what its evaluation before has left still there?"""
    for name in event.accounts:
        account = books.account(name)
        if account.stirred:
            books.accounts[name] = replace(account, added_to=event.site)


def on_assign(books: Books, event: ev.Assign) -> Entry[ev.Assign]:
    """What was there, or was zeroed just before, went into what is put here now."""
    for name in event.accounts:
        account = books.account(name)
        for number in account.fresh:
            books.excuse(number, "read")
            books.let_go(number)
        for waste in account.wasted:
            books.unwaste(waste)
        books.accounts[name] = replace(account, fresh=(), lots=(), wasted=())
    return books.credit(event, _by_hand(books, event.site, event.accounts))


def _by_hand(books: Books, site: Site, names: tuple[str, ...]) -> Credit:
    return Credit(
        number=books.number,
        site=site,
        accounts=names,
        owners=books.owners_of(names),
        batch=books.batch,
        source=books.source,
        epoch=books.epochs.get(books.source, 0),
        held=len(names),
        by_hand=True,
    )


def on_adjust(books: Books, event: ev.Adjust) -> Entry[ev.Adjust]:
    def adjusted(account: Account) -> Account:
        return replace(account, adjusted=True, vacant=account.vacant and event.guarded)

    filled = tuple(
        name for name in event.accounts if event.adds and _is_filled(books.account(name), event)
    )
    entry = books.change(event, event.accounts, adjusted)
    if filled:
        books.credit(event, _by_hand(books, event.site, filled))
    return entry


def _is_filled(account: Account, event: ev.Adjust) -> bool:
    """It held zeros. Or None, and whoever asked for that puts in place what is added elsewhere."""
    empty = not (account.fresh or account.lots)
    return empty and (event.guarded or not account.vacant)


def on_read(books: Books, event: ev.Read) -> Entry[ev.Read]:
    """Code that got past a read has shown that there was something."""
    books.excuse_fresh(event.accounts, "read")
    return books.change(event, event.accounts, lambda account: replace(account, vacant=False))


def on_reduce(books: Books, event: ev.Reduce) -> Entry[ev.Reduce]:
    def reduced(account: Account) -> Account:
        return replace(account, unsynced=0, reduces=account.reduces + 1)

    return books.change(event, event.accounts, reduced)


def on_clip(books: Books, event: ev.Clip) -> Entry[ev.Clip]:
    if event.bound == float("inf"):
        return books.untouched(event, event.accounts)
    found = [books.account(name) for name in event.accounts]
    vacant = not any(account.fresh or account.lots for account in found)

    def clipped(account: Account) -> Account:
        scaled = account.scaler is not None and not event.scale_aware
        return accounts.clipped(account, event.site, vacant=vacant, scaled=scaled)

    return books.change(event, event.accounts, clipped)


def on_zero(books: Books, event: ev.Zero) -> Entry[ev.Zero]:
    if event.waived or event.within:
        books.excuse_fresh(event.accounts, "waived")
    before = {name: books.account(name) for name in event.accounts}
    pending = {n: books.credits[n] for account in before.values() for n in account.fresh}
    for lot in (lot for account in before.values() for lot in account.lots):
        books.settle(lot.pending)
    lost = [books.let_go(n) for account in before.values() for n in account.fresh]
    for name, account in before.items():
        books.accounts[name] = accounts.zeroed(account, event.site, to_none=event.to_none)
    wasted = books.waste([credit for credit in lost if credit], event.site, before.values())
    wasted = tuple(waste for waste in wasted if not waste.leaf)
    after = {name: books.accounts[name] for name in before}
    trails = tuple(books.trails[waste.site, waste.owners] for waste in wasted)
    return books.entry(event, before, after, wasted=wasted, trails=trails, pending=pending)


def on_fault(books: Books, event: ev.Fault) -> Entry[ev.Fault]:
    for number in books.fresh(event.accounts):
        credit = books.credits[number]
        if credit.batch == books.batch:
            books.credits[number] = replace(
                credit, torn=credit.torn or event.torn, faulted_at=event.site, excuse="torn"
            )
    return books.untouched(event, event.accounts)
