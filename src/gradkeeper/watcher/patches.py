"""Replacing a function of torch for a while, and putting it back.

Watches may end in any order, in any thread. Each replacement lies over what it found; one that is
taken away while others lie over it stays in between, where it only passes calls on, and goes with
them. So after the last watch each function is what it was before the first.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from gradkeeper.torch_private import Undo as Undo
from gradkeeper.torch_private import keep_from_compiler

Make = Callable[[Any], Any]
MISSING = object()


class _Layer:
    """One replacement."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.ended = False


class _PatchedAttribute:
    """An attribute that is replaced: what it was, and what lies over it."""

    def __init__(self, owner: Any, name: str, *, everywhere: bool, traceable: bool) -> None:
        self.owner, self.name = owner, name
        self.everywhere, self.traceable = everywhere, traceable
        self.own = vars(owner).get(name, MISSING)
        self.original = getattr(owner, name)
        self.layers: list[_Layer] = []

    @property
    def top(self) -> Any:
        return self.layers[-1].function if self.layers else self.original

    def is_covered(self) -> bool:
        """Somebody else has put something over ours."""
        return bool(self.layers) and vars(self.owner).get(self.name) is not self.top

    def add(self, make: Make) -> _Layer:
        before = self.top
        layer = _Layer(make(before))
        if not self.traceable:
            keep_from_compiler(layer.function, callees=False)
        self.layers.append(layer)
        self._set((before,))
        return layer

    def end(self, layer: _Layer) -> bool:
        """True if nothing of ours is left."""
        layer.ended = True
        if not self.layers[-1].ended:
            return False
        covered, gone = self.is_covered(), []
        while self.layers and self.layers[-1].ended:
            gone.append(self.layers.pop().function)
        if covered:
            # What lies over ours was not put there by us: it stays, and calls what passes on.
            return not self.layers
        self._set(tuple(gone))
        return not self.layers

    def _set(self, before: tuple[Any, ...]) -> None:
        if self.everywhere:
            self.set_in(self.owner, before)
            # Also those who said `from torch... import name`, before the watch or meanwhile.
            with at_once() as waiting:
                waiting.append((self, before))
        elif not self.layers and self.own is MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.top if self.layers else self.own)

    def set_in(self, module: Any, before: tuple[Any, ...]) -> None:
        if any(vars(module)[self.name] is patched for patched in before):
            setattr(module, self.name, self.top)


_slots: dict[tuple[int, str], list[_PatchedAttribute]] = {}
"""Of each attribute; several where others have put something over ours, and we over theirs."""
_lock = threading.RLock()


def replace(owner: Any, name: str, make: Make, *, traceable: bool = False) -> Undo:
    """Puts `make(original)` in the place of `owner.name`; returns what takes it away again.

    torch.compile does not look into it, unless it is `traceable`: then it is to do nothing but the
    original while something is compiled, which may ask for one graph.
    """
    return _replace(owner, name, make, everywhere=False, traceable=traceable)


def replace_everywhere(
    owner: ModuleType, name: str, make: Make, *, traceable: bool = False
) -> Undo:
    """As `replace`, also for those who said `from torch... import name` before the watch began."""
    return _replace(owner, name, make, everywhere=True, traceable=traceable)


def _replace(owner: Any, name: str, make: Make, *, everywhere: bool, traceable: bool) -> Undo:
    with _lock:
        slots = _slots.setdefault((id(owner), name), [])
        if not slots or slots[-1].is_covered():
            slots.append(_PatchedAttribute(owner, name, everywhere=everywhere, traceable=traceable))
        slot = slots[-1]
        layer = slot.add(make)

    def undo() -> None:
        with _lock:
            if slot.end(layer):
                slots.remove(slot)
                if not slots:
                    _slots.pop((id(owner), name), None)

    return undo


Waiting = list[tuple[_PatchedAttribute, tuple[Any, ...]]]
_waiting: Waiting | None = None
"""While several functions are replaced one after the other: where their names are known is looked
for once for all of them."""


@contextmanager
def at_once() -> Iterator[Waiting]:
    """What is replaced or put back inside reaches all modules at the end of the outermost one."""
    global _waiting
    with _lock:
        if _waiting is not None:
            yield _waiting
            return
        waiting = _waiting = []
        try:
            yield waiting
        finally:
            _waiting = None
            _reach_all_modules(waiting)


def _reach_all_modules(waiting: Waiting) -> None:
    by_name: dict[str, Waiting] = {}
    for change in waiting:
        by_name.setdefault(change[0].name, []).append(change)
    names = set(by_name)
    for module in list(sys.modules.values()):
        if type(module) is not ModuleType:
            continue
        for name in vars(module).keys() & names:
            for slot, before in by_name[name]:
                slot.set_in(module, before)


class Undoing:
    """What has been done, to be undone in reverse."""

    def __init__(self) -> None:
        self._undos: list[Undo] = []

    def add(self, *undos: Undo) -> None:
        self._undos.extend(undos)

    def undo(self) -> None:
        with at_once():
            while self._undos:
                self._undos.pop()()
