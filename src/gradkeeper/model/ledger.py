"""The books. Post events, get entries: the accounts concerned, before and after.

The one place in the model that changes. It judges nothing: what is wrong, the rules say. What each
event does to an account stands in account.py; what a step spends, in spending.py.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from gradkeeper.model import account as accounts
from gradkeeper.model import events as ev
from gradkeeper.model.account import Account
from gradkeeper.model.books import Books
from gradkeeper.model.credit import Credit
from gradkeeper.model.entry import Entry
from gradkeeper.model.optimizer import BY_HAND, Optimizer, Scaler, TickMark
from gradkeeper.model.site import Site
from gradkeeper.model.spending import spend
from gradkeeper.model.value import replace

E = TypeVar("E", bound=ev.Event)
MOST_TICKS = 64


class Ledger:
    def __init__(self) -> None:
        self._books = Books()

    def post(self, event: E) -> Entry[E]:
        """Enters one event and says what it changed."""
        self._books.number += 1
        entry: Entry[E] = HANDLERS[type(event)](self._books, event)
        return entry

    @property
    def accounts(self) -> Mapping[str, Account]:
        return self._books.accounts

    @property
    def optimizers(self) -> Mapping[str, Optimizer]:
        return self._books.optimizers


def on_open(books: Books, event: ev.Open) -> Entry[ev.Open]:
    def describe(account: Account) -> Account:
        return replace(
            account, parameters=event.parameters, size=event.size, trainable=event.trainable
        )

    return books.change(event, (event.account,), describe)


def on_split(books: Books, event: ev.Split) -> Entry[ev.Split]:
    whole = books.account(event.account)
    after = {name: replace(whole, name=name) for name in event.into}
    others = tuple(name for name in event.into if name != event.account)
    for number in whole.fresh:
        credit = books.credits[number]
        books.credits[number] = replace(
            credit,
            accounts=_put(credit.accounts, event.account, event.into),
            held=credit.held + len(event.into) - 1,
        )
    for name in whole.owners:
        owner = books.optimizers[name]
        parts = _put(owner.accounts, event.account, event.into)
        books.optimizers[name] = replace(owner, accounts=parts)
    if event.account not in event.into:
        del books.accounts[event.account]
    books.accounts |= after
    before = {event.account: whole} | {name: Account(name) for name in others}
    return books.entry(event, before, after)


def _put(names: tuple[str, ...], old: str, new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for name in names for part in (new if name == old else (name,)))


def on_adopt(books: Books, event: ev.Adopt) -> Entry[ev.Adopt]:
    before = {name: books.account(name) for name in event.accounts}
    owner = books.optimizers.get(event.optimizer)
    if owner is None:
        rebuilds = _supersede(books, event, before)
        owner = Optimizer(event.optimizer, event.site, stateful=event.stateful, rebuilds=rebuilds)
    owned = dict.fromkeys((*owner.accounts, *event.accounts))
    books.optimizers[event.optimizer] = replace(owner, accounts=tuple(owned))

    def adopted(account: Account) -> Account:
        owners = dict.fromkeys((*account.owners, event.optimizer))
        return replace(account, owners=tuple(owners), reset=False)

    return books.change(event, event.accounts, adopted, owner=books.optimizers[event.optimizer])


def _supersede(books: Books, event: ev.Adopt, before: Mapping[str, Account]) -> int:
    """Lets go of an optimizer that the same line built over the same accounts; how often, in a row.

    Only rebuilding after a step or two counts, and not where weights went back to an earlier
    state in between: that is a new training, not the next step of one.
    """
    rebuilds = 0
    for name in {owner for account in before.values() for owner in account.owners}:
        old = books.optimizers[name]
        if old.site != event.site or set(old.accounts) != set(event.accounts):
            continue
        anew = any(account.reset for account in before.values())
        if 1 <= old.real <= 2 and not anew:
            rebuilds = max(rebuilds, old.rebuilds + 1)
        books.forget(old)
    return rebuilds


def on_batch(books: Books, event: ev.Batch) -> Entry[ev.Batch]:
    books.batch += 1
    books.source = event.source
    return books.entry(event, {}, {})


def on_epoch_begin(books: Books, event: ev.EpochBegin) -> Entry[ev.EpochBegin]:
    books.epochs[event.source] = books.epochs.get(event.source, 0) + 1
    books.between_epochs.discard(event.source)
    return books.entry(event, {}, {})


def on_epoch_end(books: Books, event: ev.EpochEnd) -> Entry[ev.EpochEnd]:
    books.between_epochs.add(event.source)
    return books.entry(event, {}, {})


def on_forward(books: Books, event: ev.Forward) -> Entry[ev.Forward]:
    return books.change(event, event.accounts, lambda account: replace(account, forwarded=True))


def on_backward(books: Books, event: ev.Backward) -> Entry[ev.Backward]:
    scaler = books.scalers.get(event.scaler) if event.scaler else None
    credit = Credit(
        number=books.number,
        site=event.site,
        accounts=event.accounts,
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
        held=len(event.accounts),
        excuse="leaf" if event.leaf else "closure" if event.within else None,
    )
    return books.credit(event, credit, scaler=event.scaler, synced=event.synced)


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
    credit = Credit(
        number=books.number,
        site=event.site,
        accounts=event.accounts,
        batch=books.batch,
        source=books.source,
        epoch=books.epochs.get(books.source, 0),
        held=len(event.accounts),
        by_hand=True,
    )
    return books.credit(event, credit)


def on_adjust(books: Books, event: ev.Adjust) -> Entry[ev.Adjust]:
    return books.change(event, event.accounts, lambda account: replace(account, adjusted=True))


def on_read(books: Books, event: ev.Read) -> Entry[ev.Read]:
    books.excuse_fresh(event.accounts, "read")
    return books.untouched(event, event.accounts)


def on_reduce(books: Books, event: ev.Reduce) -> Entry[ev.Reduce]:
    def reduced(account: Account) -> Account:
        return replace(account, unsynced=0, reduces=account.reduces + 1)

    return books.change(event, event.accounts, reduced)


def on_scale(books: Books, event: ev.Scale) -> Entry[ev.Scale]:
    return _scaler(books, event, lambda scaler: replace(scaler, scaled_at=event.site))


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


def on_clip(books: Books, event: ev.Clip) -> Entry[ev.Clip]:
    if event.bound == float("inf"):
        return books.untouched(event, event.accounts)
    found = [books.account(name) for name in event.accounts]
    vacant = not any(account.fresh or account.lots for account in found)

    def clipped(account: Account) -> Account:
        scaled = account.scaler is not None and not event.scale_aware
        return accounts.clipped(account, event.site, vacant=vacant, scaled=scaled)

    return books.change(event, event.accounts, clipped)


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
    if event.gradient:
        owner = books.optimizer(BY_HAND, event.site)
        return spend(books, event, owner, event.accounts, None)
    books.excuse_fresh(event.accounts, "moved")
    return books.change(event, event.accounts, lambda account: replace(account, moved=True))


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
    after = {name: books.accounts[name] for name in before}
    trails = tuple(books.trails[waste.site] for waste in wasted)
    return books.entry(event, before, after, wasted=wasted, trails=trails, pending=pending)


def on_save(books: Books, event: ev.Save) -> Entry[ev.Save]:
    if event.disk and not event.gradients:
        for number in books.fresh(event.accounts):
            credit = books.credits[number]
            if not credit.spent_by:
                books.credits[number] = replace(
                    credit,
                    saved_at=credit.saved_at or event.site,
                    saved_to_resume=credit.saved_to_resume or bool(event.optimizers),
                )
    return books.untouched(event, event.accounts)


def on_restore(books: Books, event: ev.Restore) -> Entry[ev.Restore]:
    if not event.disk:
        books.excuse_fresh(event.accounts, "moved")
        return books.change(event, event.accounts, lambda account: replace(account, reset=True))
    if event.gradients:
        return _restore_gradients(books, event)
    for number in books.fresh(event.accounts):
        books.credits[number] = replace(books.credits[number], outlived=event.site)
    owners = {owner for name in event.accounts for owner in books.account(name).owners}
    for name in owners:
        owner = books.optimizers[name]
        books.optimizers[name] = replace(owner, restored_at=event.site)
    return books.untouched(event, event.accounts)


def _restore_gradients(books: Books, event: ev.Restore) -> Entry[ev.Restore]:
    for name in event.accounts:
        account = books.account(name)
        for number in account.fresh:
            books.excuse(number, "waived")
            books.let_go(number)
        books.accounts[name] = replace(account, fresh=(), lots=())
    credit = Credit(
        number=books.number,
        site=event.site,
        accounts=event.accounts,
        held=len(event.accounts),
        by_hand=True,
        restored=True,
    )
    return books.credit(event, credit)


def on_tick(books: Books, event: ev.Tick) -> Entry[ev.Tick]:
    owner = books.optimizer(event.optimizer, event.site)
    if not event.metric:
        books.optimizers[owner.name] = _ticked(books, owner, event.site)
    return books.untouched(event, owner.accounts, owner=owner)


def _ticked(books: Books, owner: Optimizer, site: Site) -> Optimizer:
    if owner.steps == 0 and site not in owner.early_ticks:
        owner = replace(owner, early_ticks=(*owner.early_ticks, site)[-MOST_TICKS:])
    if not books.fresh(owner.accounts):
        return owner
    mark = TickMark(site, books.batch, books.epochs.get(books.source, 0))
    return replace(owner, ticks=(*owner.ticks, mark)[-MOST_TICKS:])


def on_fault(books: Books, event: ev.Fault) -> Entry[ev.Fault]:
    for number in books.fresh(event.accounts):
        credit = books.credits[number]
        if credit.batch == books.batch:
            books.credits[number] = replace(
                credit, torn=credit.torn or event.torn, faulted_at=event.site, excuse="torn"
            )
    return books.untouched(event, event.accounts)


def on_fact(books: Books, event: E) -> Entry[E]:
    """Events that change no account: the rules read them as they are."""
    return books.entry(event, {}, {})


def on_close(books: Books, event: ev.Close) -> Entry[ev.Close]:
    closing = _closing(books, event.optimizers)
    names = {name for owner in closing.values() for name in owner.accounts}
    before = dict(books.accounts) if event.optimizers is None else _pick(books.accounts, names)
    entry = books.entry(
        event,
        before,
        {},
        optimizers=closing,
        trails=tuple(books.trails.values()) if event.optimizers is None else (),
        pending=dict(books.credits),
    )
    for owner in closing.values():
        books.forget(owner)
    for name in [name for name in before if not books.accounts[name].owners]:
        books.drop(name)
    return entry


def _closing(books: Books, names: Iterable[str] | None) -> dict[str, Optimizer]:
    if names is None:
        return dict(books.optimizers)
    return _pick(books.optimizers, names)


Value = TypeVar("Value")


def _pick(table: Mapping[str, Value], names: Iterable[str]) -> dict[str, Value]:
    return {name: table[name] for name in names if name in table}


HANDLERS: dict[type[ev.Event], Callable[[Books, Any], Entry[Any]]] = {
    ev.Open: on_open,
    ev.Split: on_split,
    ev.Adopt: on_adopt,
    ev.Batch: on_batch,
    ev.EpochBegin: on_epoch_begin,
    ev.EpochEnd: on_epoch_end,
    ev.Forward: on_forward,
    ev.Backward: on_backward,
    ev.Assign: on_assign,
    ev.Adjust: on_adjust,
    ev.Read: on_read,
    ev.Reduce: on_reduce,
    ev.Scale: on_scale,
    ev.Unscale: on_unscale,
    ev.Update: on_update,
    ev.Clip: on_clip,
    ev.Step: on_step,
    ev.Move: on_move,
    ev.Zero: on_zero,
    ev.Save: on_save,
    ev.Restore: on_restore,
    ev.Tick: on_tick,
    ev.Fault: on_fault,
    ev.Exhaust: on_fact,
    ev.Digest: on_fact,
    ev.Close: on_close,
}
