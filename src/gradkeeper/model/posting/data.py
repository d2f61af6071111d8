"""Where in the data the loop is."""

from gradkeeper.model import events as ev
from gradkeeper.model.books import Books
from gradkeeper.model.credit import Order
from gradkeeper.model.entry import Entry


def on_batch(books: Books, event: ev.Batch) -> Entry[ev.Batch]:
    books.batch += 1
    books.fetched[event.source] = books.fetched.get(event.source, 0) + event.fetched
    books.source = event.source
    return books.entry(event, {}, {})


def on_epoch_begin(books: Books, event: ev.EpochBegin) -> Entry[ev.EpochBegin]:
    books.epochs[event.source] = books.epochs.get(event.source, 0) + 1
    books.between_epochs.discard(event.source)
    return books.entry(event, {}, {})


def on_epoch_end(books: Books, event: ev.EpochEnd) -> Entry[ev.EpochEnd]:
    books.between_epochs.add(event.source)
    return books.entry(event, {}, {})


def on_shuffle(books: Books, event: ev.Shuffle) -> Entry[ev.Shuffle]:
    """An order that nobody has trained on, or that is not used up, is nothing to compare with."""
    last = books.orders.get(event.sampler)
    same = last is not None and last.trained and last.seed == event.seed
    same = same and event.source in books.between_epochs
    books.orders[event.sampler] = Order(event.sampler, event.seed, event.site, same=same)
    books.sampler_of[event.source] = event.sampler
    return books.entry(event, {}, {})


def on_resume(books: Books, event: ev.Resume) -> Entry[ev.Resume]:
    books.resumed[event.loader] = event.site
    return books.entry(event, {}, {})


def on_overrun(books: Books, event: ev.Overrun) -> Entry[ev.Overrun]:
    return books.entry(event, {}, {}, resumed=books.resumed.get(event.loader))
