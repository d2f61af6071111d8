"""Rounds of a loop that were counted, not written down: what they add to the books."""

from dataclasses import dataclass

from gradkeeper.model.books import Books
from gradkeeper.model.credit import CreditLine, Trail
from gradkeeper.model.fast_replace import replace
from gradkeeper.model.optimizer import Optimizer


@dataclass(frozen=True, slots=True)
class Counts:
    """All that grows with every round, however long a loop runs."""

    trails: dict[CreditLine, Trail]
    optimizers: dict[str, Optimizer]
    steps: int
    real_steps: int


def counts_of(books: Books) -> Counts:
    return Counts(dict(books.trails), dict(books.optimizers), books.steps, books.real_steps)


def count_again(books: Books, before: Counts, times: int) -> None:
    """The round since `before` came `times` more: each added what this one has."""
    for line, trail in books.trails.items():
        old = before.trails.get(line)
        if old is not None and old is not trail:
            books.trails[line] = _trail(old, trail, times)
    for name, owner in books.optimizers.items():
        known = before.optimizers.get(name)
        if known is not None and known is not owner:
            books.optimizers[name] = _optimizer(known, owner, times)
    books.steps += times * (books.steps - before.steps)
    books.real_steps += times * (books.real_steps - before.real_steps)


def _trail(before: Trail, after: Trail, times: int) -> Trail:
    return replace(
        after,
        made=after.made + times * (after.made - before.made),
        spent=after.spent + times * (after.spent - before.spent),
        wasted=after.wasted + times * (after.wasted - before.wasted),
        early=after.early + times * (after.early - before.early),
        steps=after.steps + times * (after.steps - before.steps),
        short=after.short + times * (after.short - before.short),
    )


def _optimizer(before: Optimizer, after: Optimizer, times: int) -> Optimizer:
    return replace(
        after,
        real=after.real + times * (after.real - before.real),
        empty=after.empty + times * (after.empty - before.empty),
        skipped=after.skipped + times * (after.skipped - before.skipped),
    )
