"""Whose accounts these are: opened, parted, adopted, out of sight, closed."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from gradkeeper.model import events as ev
from gradkeeper.model.account import Account
from gradkeeper.model.books import Books
from gradkeeper.model.credit import Trail
from gradkeeper.model.entry import Entry
from gradkeeper.model.fast_replace import replace
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.site import variable

MOST_REPLACED = 64


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
    for name, owner in books.replaced.items():
        parts = _put(owner.accounts, event.account, event.into)
        books.replaced[name] = replace(owner, accounts=parts)
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
    books.left_idle.pop(event.optimizer, None)
    if owner is None:
        rebuilds, heir = _supersede(books, event, before)
        owner = Optimizer(
            event.optimizer,
            event.site,
            stateful=event.stateful,
            since=books.steps,
            rebuilds=rebuilds,
            heir=heir,
            escaped=books.escaped,
            kept=books.kept,
        )
    owned = dict.fromkeys((*owner.accounts, *event.accounts))
    namesakes = _namesakes(books, owner)
    for namesake in namesakes:
        books.optimizers[namesake.name] = replace(namesake, namesake=True)
    books.optimizers[event.optimizer] = replace(
        owner, accounts=tuple(owned), namesake=bool(namesakes)
    )

    def adopted(account: Account) -> Account:
        owners = dict.fromkeys((*account.owners, event.optimizer))
        return replace(account, owners=tuple(owners), reset=False)

    return books.change(event, event.accounts, adopted, owner=books.optimizers[event.optimizer])


def _namesakes(books: Books, owner: Optimizer) -> list[Optimizer]:
    others = [optimizer for optimizer in books.optimizers.values() if optimizer.name != owner.name]
    return [other for other in others if other.variable == owner.variable]


def _supersede(books: Books, event: ev.Adopt, before: Mapping[str, Account]) -> tuple[int, bool]:
    """Lets go of an optimizer over the same accounts whose place this one takes; of one that
    never stepped, also if a part was exchanged in between, such as a head.

    Tells how often that was so, in a row, and whether one of them has stepped. Only rebuilding
    after a step or two counts, and not where weights went back to an earlier state in between: that
    is a new training, not the next step of one. One that came to no step, in the middle of a
    window, neither counts nor ends the row.
    """
    rebuilds, heir = 0, False
    for name in {owner for account in before.values() for owner in account.owners}:
        old = books.optimizers[name]
        if not _takes_the_place(event, old):
            continue
        anew = any(account.reset for account in before.values())
        if old.real <= 2 and not anew:
            rebuilds = max(rebuilds, old.rebuilds + (old.real > 0))
        heir = heir or old.trains
        books.forget(old)
        if not old.steps and len(books.replaced) < MOST_REPLACED:
            books.replaced[old.name] = old
        _inherit(books, event, old)
    return rebuilds, heir


def _takes_the_place(event: ev.Adopt, old: Optimizer) -> bool:
    """The same line has built it, over the same accounts; or another has, for the same variable,
    and it never stepped."""
    if old.site == event.site:
        return set(old.accounts) == set(event.accounts)
    return not old.steps and old.variable == variable(event.optimizer)


def _inherit(books: Books, event: ev.Adopt, old: Optimizer) -> None:
    """What the old optimizer has spent is not for the new one to spend once more."""
    for name in event.accounts:
        account = books.account(name)
        lots = tuple(
            replace(lot, owners=lot.owners | {event.optimizer}) if old.name in lot.owners else lot
            for lot in account.lots
        )
        books.accounts[name] = replace(account, lots=lots)
    _follow_on(books, event, old.name)
    for scaler in books.scalers.values():
        if old.name in scaler.stepped:
            stepped = scaler.stepped - {old.name} | {event.optimizer}
            books.scalers[scaler.name] = replace(scaler, stepped=stepped)


def _follow_on(books: Books, event: ev.Adopt, old: str) -> None:
    """What became of a line's backwards goes on with whoever takes the old optimizer's place."""

    def heirs(owners: frozenset[str]) -> frozenset[str]:
        return owners - {old} | {event.optimizer} if old in owners else owners

    for line, trail in list(books.trails.items()):
        if old in trail.owners:
            del books.trails[line]
            owners = heirs(trail.owners)
            known = books.trails.get((trail.site, owners))
            trail = replace(trail, owners=owners)
            books.trails[trail.site, owners] = known.joined(trail) if known else trail
    for number, credit in books.credits.items():
        books.credits[number] = replace(credit, owners=heirs(credit.owners))
    for name, account in books.accounts.items():
        if account.wasted:
            wasted = tuple(replace(waste, owners=heirs(waste.owners)) for waste in account.wasted)
            books.accounts[name] = replace(account, wasted=wasted)


def on_escape(books: Books, event: ev.Escape) -> Entry[ev.Escape]:
    books.escaped = books.escaped or event.everything
    kept = not event.passing and not event.given
    books.kept = books.kept or (event.everything and kept)
    optimizers = tuple(books.optimizers) if event.everything else event.optimizers
    for name in optimizers:
        owner = books.optimizer(name, event.site)
        given = event.given and not owner.kept
        books.optimizers[name] = replace(
            owner, escaped=True, kept=owner.kept or kept, given=owner.given or given
        )
    names = tuple(books.accounts) if event.everything else event.accounts
    if event.passing:
        books.lose_sight(names)

    def gone(account: Account) -> Account:
        return replace(account, escaped=True, kept=account.kept or kept)

    return books.change(event, names, gone)


def on_close(books: Books, event: ev.Close) -> Entry[ev.Close]:
    closing = _closing(books, event.optimizers)
    names = {name for owner in closing.values() for name in owner.accounts}
    before = dict(books.accounts) if event.optimizers is None else _pick(books.accounts, names)
    entry = books.entry(
        event,
        before,
        {},
        optimizers=closing,
        left_idle=dict(books.left_idle),
        thrown_away=frozenset(
            name for trail in books.trails.values() if trail.wasted for name in trail.accounts
        ),
        trails=_trails(books, event.optimizers),
        pending=dict(books.credits),
    )
    for owner in closing.values():
        unused = tuple(name for name in owner.accounts if name in before and not before[name].used)
        if unused and not owner.trains:
            books.left_idle[owner.name] = replace(owner, accounts=unused)
        books.forget(owner)
    for name in [name for name in before if not books.accounts[name].owners]:
        books.drop(name)
    return entry


def _trails(books: Books, closing: tuple[str, ...] | None) -> tuple[Trail, ...]:
    """The lines to judge now: all, or those whose gradients only these optimizers could spend.

    What nobody owns, nobody spends.
    """
    if closing is None:
        return tuple(books.lines())
    lines = []
    for trail in books.lines():
        reached = books.accounts.keys() & set(trail.accounts)
        owners = {owner for name in reached for owner in books.account(name).owners}
        if owners and owners <= set(closing):
            lines.append(trail)
    return tuple(lines)


Picked = TypeVar("Picked")


def _pick(table: Mapping[str, Picked], names: Iterable[str]) -> dict[str, Picked]:
    return {name: table[name] for name in names if name in table}


def _closing(books: Books, names: Iterable[str] | None) -> dict[str, Optimizer]:
    if names is None:
        return dict(books.optimizers)
    return _pick(books.optimizers, names)
