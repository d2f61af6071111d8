"""Losses of unknown origin, where several optimizers train: each is meant for who steps next."""

import dataclasses

from gradkeeper.lint.events_of import STRAY
from gradkeeper.model import events as ev
from gradkeeper.model.site import Site


def settle(tape: list[ev.Event]) -> bool:
    """Gives each stray backward the accounts of the optimizer that its line is followed by.

    False if a line's optimizer cannot be told.
    """
    if not any(isinstance(one, ev.Backward) and STRAY[0] in one.accounts for one in tape):
        return True
    owners = _followed_by(tape)
    owned: dict[str, dict[str, None]] = {}
    sure = True
    for place, event in enumerate(tape):
        if isinstance(event, ev.Adopt):
            owned.setdefault(event.optimizer, {}).update(dict.fromkeys(event.accounts))
        elif isinstance(event, ev.Split):
            for accounts in owned.values():
                if event.account in accounts:
                    accounts.update(dict.fromkeys(event.into))
        elif isinstance(event, ev.Backward) and STRAY[0] in event.accounts:
            owner = owners.get(event.site)
            known = dict.fromkeys(name for name in event.accounts if name not in STRAY)
            sure = sure and owner is not None
            names = tuple(known | owned.get(owner or "", {}))
            tape[place] = dataclasses.replace(event, accounts=names)
    return sure


def _followed_by(tape: list[ev.Event]) -> dict[Site, str | None]:
    """By line of a backward: the one optimizer that steps before any other backward comes."""
    found: dict[Site, str | None] = {}
    last: Site | None = None
    for event in tape:
        if isinstance(event, ev.Backward):
            last = event.site
        elif isinstance(event, ev.Step) and last is not None:
            known = found.setdefault(last, event.optimizer)
            if known != event.optimizer:
                found[last] = None
    return found


def adopt_early(tape: list[ev.Event], optimizers: set[str]) -> None:
    """An optimizer that the source shows late was there before its first gradient came."""
    for place in range(len(tape)):
        adoption = tape[place]
        if not isinstance(adoption, ev.Adopt) or adoption.optimizer not in optimizers:
            continue
        first = _first_credit(tape[:place], set(adoption.accounts))
        if first is not None and not any(isinstance(one, ev.Split) for one in tape[first:place]):
            tape.insert(first, tape.pop(place))


def _first_credit(tape: list[ev.Event], accounts: set[str]) -> int | None:
    for place, event in enumerate(tape):
        if isinstance(event, ev.Backward) and accounts & set(event.accounts):
            return place
    return None
