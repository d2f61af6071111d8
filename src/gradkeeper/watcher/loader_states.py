"""Loaders that can be told where in their data to go on, and the iterators that were there before.

`StatefulDataLoader.load_state_dict` concerns the next iterator: one that is there already goes on
as if nothing had been said.
"""

import weakref
from typing import Any


class LoaderStates:
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
