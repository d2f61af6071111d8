"""Replacing a function of torch for a while, and putting it back.

Each replacement is made together with its undo. Nested and interrupted watches are safe because
undoing goes in the reverse order of doing.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

Undo = Callable[[], object]
MISSING = object()


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> Undo:
    """Puts `make(original)` in the place of `owner.name`; returns what puts the original back."""
    inherited = vars(owner).get(name, MISSING)
    original = getattr(owner, name)
    setattr(owner, name, make(original))
    if inherited is MISSING:
        return lambda: delattr(owner, name)
    return lambda: setattr(owner, name, inherited)


def replace_everywhere(owner: ModuleType, name: str, make: Callable[[Any], Any]) -> Undo:
    """As `replace`, also for those who said `from torch... import name` before the watch began."""
    original = getattr(owner, name)
    made = make(original)
    holders = [module for module in _modules() if vars(module).get(name) is original]
    for module in holders:
        setattr(module, name, made)

    def undo() -> None:
        # Those who imported the replacement meanwhile get the original too.
        for module in _modules():
            if vars(module).get(name) is made:
                setattr(module, name, original)

    return undo


def _modules() -> list[ModuleType]:
    return [module for module in list(sys.modules.values()) if type(module) is ModuleType]


class Undoing:
    """What has been done, to be undone in reverse."""

    def __init__(self) -> None:
        self._undos: list[Undo] = []

    def add(self, *undos: Undo) -> None:
        self._undos.extend(undos)

    def undo(self) -> None:
        while self._undos:
            self._undos.pop()()
