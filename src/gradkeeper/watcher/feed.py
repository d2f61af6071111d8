"""Batches that loaders hand out, and where their epochs begin and end.

Some frameworks fetch ahead: accelerate asks for the next batch before it hands out the one before
it; Fabric and Ignite do not. It shows at an epoch's second fetch: if nothing was credited since the
first, that batch is not in use yet. Such batches are held back by one, and the epoch's end with
them.
"""

import weakref
from collections.abc import Callable

from gradkeeper.model import Site


class Feed:
    def __init__(self, post: Callable[[str, Site, str], None]) -> None:
        """`post` takes "batch", "begin" or "end", a site, and the loader's name."""
        self._post = post
        self.begun = False
        """A loader was ever used: an attribute, for it is asked for all the time."""
        self.latest: Callable[[], object | None] = _nothing
        """The iterator that handed out the last batch, while it is there and not exhausted."""
        self.unused: set[str] = set()
        """Loaders whose first batch of an epoch is fetched, and no backward has begun since."""
        self._open: dict[str, weakref.ref[object]] = {}
        self._ahead: set[str] = set()
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
        known = self._open.get(source)
        if known is None or known() is not iterator:
            self._finish()
            self._open = {
                name: one
                for name, one in self._open.items()
                if one() is not None and name != source
            }
            self.latest = self._open[source] = weakref.ref(iterator)
            self._ahead.discard(source)
            self.unused.add(source)
            self._post("begin", site, source)
            self._post("batch", site, source)
            return
        if ahead and source in self.unused and source not in self._ahead:
            # The second fetch of a prefetcher: the first batch is not even handed out yet.
            self._ahead.add(source)
            return
        self.latest = known
        self._post("batch", site, source)

    def exhausted(self, source: str, site: Site) -> None:
        if source not in self._open:
            return
        del self._open[source]
        self.latest = _nothing
        if source in self._ahead:
            self._ahead.discard(source)
            self._post("batch", site, source)
            self._ending = (source, site)
            return
        self._post("end", site, source)

    def _finish(self) -> None:
        """The last batch of a prefetched epoch has been used."""
        if self._ending is not None:
            source, site = self._ending
            self._ending = None
            self._post("end", site, source)


def _nothing() -> None:
    """In the place of a weak reference, while there is nothing to refer to."""
