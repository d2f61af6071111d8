"""State that leaves for a checkpoint, and comes back from one."""

from gradkeeper.model import events as ev
from gradkeeper.model.account import Account
from gradkeeper.model.books import Books
from gradkeeper.model.credit import Credit
from gradkeeper.model.entry import Entry
from gradkeeper.model.fast_replace import replace


def on_save(books: Books, event: ev.Save) -> Entry[ev.Save]:
    if event.disk and not event.gradients:
        _mark_waiting(books, event)
    if event.path:
        books.written[event.path] = (event.site, event.accounts)
    owners = {name: books.optimizers[name] for name in event.optimizers if name in books.optimizers}
    return books.untouched(event, event.accounts, optimizers=owners)


def _mark_waiting(books: Books, event: ev.Save) -> None:
    fresh = [number for number in books.fresh(event.accounts) if not books.credits[number].spent_by]
    if not fresh:
        books.saves[event.site] = books.steps
    if books.saves.get(event.site) == books.steps:
        # The weights of the last step, saved again: who goes on from them does this window anew.
        return
    for number in fresh:
        credit = books.credits[number]
        books.credits[number] = replace(
            credit,
            saved_at=credit.saved_at or event.site,
            saved_to_resume=credit.saved_to_resume or bool(event.optimizers),
        )


def on_restore(books: Books, event: ev.Restore) -> Entry[ev.Restore]:
    for name in event.optimizers:
        owner = books.optimizer(name, event.site)
        books.optimizers[name] = replace(owner, remembers=True)
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

    def loaded(account: Account) -> Account:
        path = "" if account.used else event.path
        written_at, saved = books.written.get(path, (None, ()))
        return replace(
            account,
            reset=True,
            loaded_from=path,
            loaded_at=event.site,
            written_at=written_at,
            put_back=account.name in saved,
        )

    return books.change(event, event.accounts, loaded)


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
        owners=books.owners_of(event.accounts),
        held=len(event.accounts),
        by_hand=True,
        restored=True,
    )
    return books.credit(event, credit)
