"""What DataLoaders tell: batches and epochs, by which seed a sampler orders them, and where in the
data they were told to go on.
"""

import weakref
from collections.abc import Callable
from typing import Any

from torch.utils.data import BatchSampler, DistributedSampler

from gradkeeper.model import Site
from gradkeeper.torch_private import index_sampler_of

MOST_HELD = 1024
"""Batches that wait for the backward they belong to."""
ANY = ""
"""In the place of a loader's name."""

# Batches as they are used, which may be later than they are fetched; epochs as they begin and end.


class LoaderEpochs:
    def __init__(
        self,
        post: Callable[[str, Site, str], None],
        shuffled: Callable[[str, Site, int], None],
    ) -> None:
        """`post` takes "batch", "use", "begin" or "end", a site, and the loader's name; `shuffled`
        takes the loader's name, a site, and the seed by which a sampler orders an epoch."""
        self._post = post
        self._shuffled = shuffled
        self._seeds = Seeds()
        self.begun = False
        """A loader was ever used: an attribute, for it is asked for all the time."""
        self.latest: Callable[[], object | None] = _nothing
        """The iterator that handed out the last batch, while it is there and not exhausted."""
        self.unused: set[str] = set()
        """Loaders whose first batch of an epoch is fetched, and `ANY` if a framework has fetched a
        batch at all, while no backward has begun since."""
        self.held: list[tuple[str, Site]] = []
        """Of batches that a framework fetched in a row, those not told yet: it may use them one
        after the other, as transformers does with those of one window."""
        self.in_a_row = 0
        """Batches that the program has fetched from one loader since the last backward."""
        self.unread = 0
        """Of those before it, how many may still be used, one after the other."""
        self.ended_unread = False
        """A loader of `_in_groups` has ended, before its last batches were used."""
        self._in_groups: set[str] = set()
        """Loaders of which the program fetches several batches in a row, and uses one by one."""
        self.source = ""
        """The loader that handed out the last batch."""
        self._open: dict[str, weakref.ref[object]] = {}
        self._ahead: set[str] = set()
        self._lagging: str | None = None
        """The loader of a prefetcher, where the last of `held` is what it holds back itself."""
        self._ending: tuple[str, Site] | None = None

    @property
    def live(self) -> bool:
        """A loader is in the middle of an epoch, so a loop's own rounds tell nothing."""
        if self._ending is not None:
            return True
        return any(reference() is not None for reference in self._open.values())

    def fetched(self, source: str, iterator: object, site: Site, *, ahead: bool) -> None:
        """A batch came; `ahead` if it may not be handed out at once."""
        self.begun = True
        self.in_a_row = 0 if ahead else 1 + (self.in_a_row if source == self.source else 0)
        self.source = source
        known = self._open.get(source)
        if known is None or known() is not iterator:
            self.release()
            self._finish()
            self._open = {
                name: loop
                for name, loop in self._open.items()
                if loop() is not None and name != source
            }
            self.latest = self._open[source] = weakref.ref(iterator)
            self._ahead.discard(source)
            self.unused |= {source, ANY} if ahead else {source}
            seed = self._seeds.of(source, iterator)
            if seed is not None:
                self._shuffled(source, site, seed)
            self._post("begin", site, source)
            self._post("batch", site, source)
            return
        if ahead and source in self.unused and source not in self._ahead:
            # The second fetch of a prefetcher: the first batch is not even handed out yet. Or of
            # one that fetches several to use them all: then this one is used like the others.
            self._ahead.add(source)
            self._lagging = source
            self.held.append((source, site))
            return
        self.latest = known
        self._hold(source, site, ahead=ahead)

    def _hold(self, source: str, site: Site, *, ahead: bool) -> None:
        if ahead and ANY in self.unused and len(self.held) < MOST_HELD:
            self.held.append((source, site))
            return
        self.release()
        if ahead:
            self.unused.add(ANY)
        self._post("batch", site, source)

    def _hand_out(self, source: str, site: Site) -> None:
        """The last batch of a prefetcher."""
        if self._lagging == source:
            self._lagging = None
        else:
            self._hold(source, site, ahead=True)

    def used(self) -> bool:
        """A backward begins: what was fetched may be used in it. True for the first one of them."""
        if self.in_a_row:
            self.in_a_row, self.unread = 0, self.in_a_row - 1
        first = bool(self.unused)
        self.unused.clear()
        return first

    def take(self) -> None:
        """Another of the batches that were held back is used now."""
        source, site = self.held.pop(0)
        if not self.held and self._lagging is not None:
            self._ahead.discard(self._lagging)
            self._lagging = None
        self._post("batch", site, source)

    def use(self, site: Site) -> None:
        """Another of those that the program fetched in a row is used now."""
        self.unread -= 1
        self._in_groups.add(self.source)
        self._post("use", site, self.source)

    def release(self) -> None:
        """Nobody tells any more which of them is used when."""
        if self._lagging is not None:
            self._lagging = None
            self.held.pop()
        while self.held:
            self.take()
        if self.ended_unread:
            self._finish()

    def exhausted(self, source: str, site: Site) -> None:
        if source not in self._open:
            return
        del self._open[source]
        self.latest = _nothing
        ahead = source in self._ahead
        if ahead:
            self._ahead.discard(source)
            self._hand_out(source, site)
        self.ended_unread = source in self._in_groups and self.in_a_row > 0
        if ahead or ANY in self.unused or self.ended_unread:
            self._ending = (source, site)
            return
        self._post("end", site, source)

    def _finish(self) -> None:
        """The last batch of a prefetched epoch has been used."""
        if self._ending is not None:
            source, site = self._ending
            self._ending = None
            self.ended_unread = False
            self._post("end", site, source)


def _nothing() -> None:
    """In the place of a weak reference, while there is nothing to refer to."""


# By which seed a sampler that shares data out among ranks shuffles an epoch.


class Seeds:
    """Tells the seeds of each loader's epochs, until one differs: somebody counts the epochs."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._counted: set[str] = set()

    def of(self, source: str, iterator: object) -> int | None:
        """That of the epoch which begins with this iterator; None where there is none to tell."""
        if source in self._counted:
            return None
        seed = seed_of(iterator)
        if seed is None:
            return None
        if self._last.setdefault(source, seed) != seed:
            self._counted.add(source)
        return seed


def seed_of(iterator: object) -> int | None:
    """By which a DistributedSampler orders the data; None where something else may order it."""
    sampler = index_sampler_of(iterator)
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    if not isinstance(sampler, DistributedSampler) or not sampler.shuffle:
        return None
    if type(sampler).__iter__ is not DistributedSampler.__iter__:
        return None
    if hasattr(sampler.dataset, "set_epoch"):
        return None
    return int(sampler.seed) + int(sampler.epoch)


# Where to go on. `StatefulDataLoader.load_state_dict` concerns the next iterator: one that is there
# already goes on as if nothing had been said.


class LoaderStates:
    """Loaders that were told where to go on, and the iterators that were there before."""

    def __init__(self) -> None:
        self._made: weakref.WeakKeyDictionary[Any, tuple[weakref.ref[Any], int]] = (
            weakref.WeakKeyDictionary()
        )
        """By iterator: its loader, and how often that had been told by then."""
        self._told: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.waiting = False
        """Some loader was told while it had an iterator: an attribute, asked for each batch."""

    def iterates(self, iterator: object, loader: object) -> None:
        self._made[iterator] = (weakref.ref(loader), self._told.get(loader, 0))

    def told(self, loader: object, name: str) -> None:
        self._told[loader] = self._told.get(loader, 0) + 1
        self._names[loader] = name
        self.waiting = self.waiting or any(known() is loader for known, _ in self._made.values())

    def overrun(self, iterator: object) -> str | None:
        """The loader that was told after this iterator of it was made; each is named once."""
        loader, told = self._made.get(iterator, (None, 0))
        known = loader() if loader is not None else None
        if known is None or self._told.get(known, 0) == told:
            return None
        del self._made[iterator]
        return self._names.get(known)
