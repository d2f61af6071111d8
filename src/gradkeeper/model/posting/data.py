"""Where in the data the loop is."""

from gradkeeper.model import events as ev
from gradkeeper.model.books import Books
from gradkeeper.model.credit import Line, Trail
from gradkeeper.model.entry import Entry
from gradkeeper.model.site import Site
from gradkeeper.model.value import replace


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


def on_again(books: Books, event: ev.Again) -> Entry[ev.Again]:
    """Counts what was left out: after a full repetition the accounts are where they were."""
    for name in event.optimizers:
        owner = books.optimizer(name, event.site)
        books.optimizers[name] = replace(owner, real=owner.real + event.times)
    for site in event.lines:
        for line, trail in _trails(books, Site(*site)).items():
            made, spent = trail.made + event.times, trail.spent + event.times
            books.trails[line] = replace(trail, made=made, spent=spent)
    books.steps += event.times * len(event.optimizers)
    return books.entry(event, {}, {})


def _trails(books: Books, site: Site) -> dict[Line, Trail]:
    """Of a line. Whom it reached is not told again, so where it serves several all of them count:
    too much was spent rather than too little."""
    found = {line: trail for line, trail in books.trails.items() if line[0] == site}
    return found or {(site, frozenset()): Trail(site, ())}
