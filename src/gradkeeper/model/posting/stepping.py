"""Those who spend, and what goes with them: steps, scalers, schedulers, updates by hand."""

from collections.abc import Callable
from typing import Any

from gradkeeper.model import events as ev
from gradkeeper.model.account import MOST_FRESH, Account
from gradkeeper.model.books import Books
from gradkeeper.model.entry import Entry
from gradkeeper.model.fast_replace import replace
from gradkeeper.model.optimizer import BY_HAND, Optimizer, Scaler, TickMark
from gradkeeper.model.site import Site
from gradkeeper.model.spending import spend


def on_scale(books: Books, event: ev.Scale) -> Entry[ev.Scale]:
    return _scaler(books, event, lambda scaler: scaler)


def on_unscale(books: Books, event: ev.Unscale) -> Entry[ev.Unscale]:
    owner = books.optimizer(event.optimizer, event.site)
    return books.change(
        event, owner.accounts, lambda account: replace(account, scaler=None), owner=owner
    )


def on_update(books: Books, event: ev.Update) -> Entry[ev.Update]:
    def updated(scaler: Scaler) -> Scaler:
        rounds = scaler.rounds + 1
        return replace(scaler, rounds=rounds, updated_at=event.site, stepped=frozenset())

    return _scaler(books, event, updated)


def _scaler(
    books: Books, event: ev.Scale | ev.Update, change: Callable[[Scaler], Scaler]
) -> Entry[Any]:
    before = books.scalers.get(event.scaler) or Scaler(event.scaler)
    books.scalers[event.scaler] = change(before)
    return books.entry(event, {}, {}, scaler=before)


def on_step(books: Books, event: ev.Step) -> Entry[ev.Step]:
    owner = books.optimizer(event.optimizer, event.site)
    scaler = books.scalers.get(event.scaler or "")
    if scaler:
        stepped = scaler.stepped | {owner.name}
        books.scalers[scaler.name] = replace(scaler, stepped=stepped)
    if event.taken:
        return spend(books, event, owner, owner.accounts, scaler)
    books.excuse_fresh(owner.accounts, "waived")
    books.optimizers[owner.name] = replace(
        owner, skipped=owner.skipped + 1, ticks=(), stepped_at=event.site
    )
    return books.untouched(event, owner.accounts, owner=owner, scaler=scaler)


def on_move(books: Books, event: ev.Move) -> Entry[ev.Move]:
    """What an optimizer owns is moved by hand for a while only: an attack on the weights, SAM."""
    if event.gradient and not books.owners_of(event.accounts) - {BY_HAND}:
        owner = books.optimizer(BY_HAND, event.site)
        entry = spend(books, event, owner, event.accounts, None)
        for name in event.accounts:
            books.accounts[name] = replace(books.accounts[name], vacant=False)
        return entry
    by_closure = {n for n in books.fresh(event.accounts) if books.credits[n].excuse == "closure"}
    books.excuse_fresh(event.accounts, "moved")
    # Before all training, that is how weights are initialised.
    begun = event.gradient or bool(books.trails or books.fetched or books.steps)

    def put_back(account: Account) -> Account:
        stirred = account.stirred or not by_closure.isdisjoint(account.fresh)
        vacant = account.vacant and not event.gradient
        moved = account.moved or begun
        return replace(account, moved=moved, reset=True, stirred=stirred, vacant=vacant)

    return books.change(event, event.accounts, put_back)


MOST_TICKS = MOST_FRESH
"""The rules ask whether there was one for each batch of a window."""


def on_tick(books: Books, event: ev.Tick) -> Entry[ev.Tick]:
    owner = books.optimizer(event.optimizer, event.site)
    if not event.metric:
        books.optimizers[owner.name] = _ticked(books, owner, event.site)
    return books.untouched(event, owner.accounts, owner=owner)


def _ticked(books: Books, owner: Optimizer, site: Site) -> Optimizer:
    # Beside others that train already, one that joins them later keeps time with their schedules.
    if owner.steps == 0 and books.real_steps == 0 and site not in owner.early_ticks:
        owner = replace(owner, early_ticks=(*owner.early_ticks, site)[-MOST_TICKS:])
    if not books.fresh(owner.accounts):
        return owner
    mark = TickMark(site, books.batch, books.epochs.get(books.source, 0))
    return replace(owner, ticks=(*owner.ticks, mark)[-MOST_TICKS:])
