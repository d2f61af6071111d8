"""The loaders of a run, by the order in which its loops first read them.

Each has one feed for the whole run: workers that stay between epochs are the feed's, and a loader's
own generator goes on from one loop to the next.
"""

from collections.abc import Iterable
from typing import Any

from gradkeeper.engine.data import Feed, feed_of
from gradkeeper.engine.data.choice import Unstated
from gradkeeper.engine.errors import PositionError
from gradkeeper.engine.resume.elastic import Shares

# A program that makes a new loader for each epoch must not keep them all.
MOST = 8


class Loaders:
    def __init__(self, *, unstated: Unstated) -> None:
        self._unstated = unstated
        self._feeds: dict[int, tuple[Any, Feed]] = {}
        """By number: the loader, which must live as long as it is known by its address."""
        self._next = 0

    def of(self, loader: Iterable[Any]) -> tuple[int, Feed]:
        for number, (known, feed) in self._feeds.items():
            if known is loader:
                return number, feed
        number, feed = self._next, feed_of(loader, unstated=self._unstated)
        self._next += 1
        self._feeds[number] = (loader, feed)
        if len(self._feeds) > MOST:
            del self._feeds[next(iter(self._feeds))]
        return number, feed

    def states(self, needed: int | None) -> dict[int, Any]:
        """Of all loaders whose position can be kept; of the `needed` one, or PositionError."""
        states = {}
        for number, (_, feed) in self._feeds.items():
            try:
                states[number] = feed.state()
            except PositionError:
                if number == needed:
                    raise
        return states

    def restore(self, states: dict[int, Any], *, but: int | None, shares: Shares) -> None:
        """Those that the program has used so far: what they draw next is what was to be drawn."""
        for number, (_, feed) in self._feeds.items():
            if number in states and number != but:
                feed.resume(shares.of(feed, states[number]))
