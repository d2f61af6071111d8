"""Finds the user's optimizers and modules: in the variables of the functions that run, or among all
objects there are.

Looking through all objects takes tens of milliseconds, so the variables come first: what trains is
mostly held by one of them, or by an object that one of them holds.
"""

import gc
import inspect
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import torch

from gradkeeper.source_line import Sites

KINDS = (torch.nn.Module, torch.optim.Optimizer)
DEPTH = 2
"""A trainer's attributes, and what lies in a list or a table among them."""
MOST_SEEN = 4_096
PLAIN = frozenset({int, float, str, bool, bytes, type(None), torch.Tensor, torch.nn.Parameter})


def among_variables(frame: FrameType | None, sites: Sites) -> list[Any]:
    """Optimizers and modules that the user's functions hold, from this one outwards."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    while frame is not None:
        if sites.is_user(frame.f_code):
            _take(variables_of(frame).values(), DEPTH, found, seen)
            _take(list(frame.f_globals.values()), DEPTH, found, seen)
        frame = frame.f_back
    return list(found.values())


def _take(values: Iterable[Any], depth: int, found: dict[int, Any], seen: set[int]) -> None:
    for value in values:
        kind = type(value)
        if kind in PLAIN or id(value) in seen or len(seen) >= MOST_SEEN:
            continue
        seen.add(id(value))
        # By type, not isinstance: that may run code of lazy proxies.
        if issubclass(kind, KINDS):
            found[id(value)] = value
        elif depth:
            _take(_held_by(value, kind), depth - 1, found, seen)


def _held_by(value: Any, kind: type) -> list[Any]:
    if kind in (list, tuple):
        return list(value)
    if kind is dict:
        return list(value.values())
    return list(attributes_of(value).values())


HEAP = 1 << 9
"""The flag of classes that a program makes, unlike those built into Python."""


def attributes_of(value: Any) -> dict[str, Any]:
    """Those of an object whose class a program makes, as they lie there."""
    kind = type(value)
    if not kind.__flags__ & HEAP or issubclass(kind, type):
        return {}
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if type(held) is dict else {}


def variables_of(frame: FrameType) -> dict[str, Any]:
    """The local variables of code that runs, as they are now; none where they cannot be had without
    a trace."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED or sys.version_info >= (3, 13):
        return dict(frame.f_locals)
    # Python 3.11 hands out one dict per call and fills it: it would keep the user's tensors alive,
    # and if the user holds it (`locals()`), it would change under their hands.
    if sys.gettrace() or sys.getprofile() or "locals" in frame.f_code.co_names:
        return {}
    held = frame.f_locals
    found = dict(held)
    held.clear()
    return found


def everywhere() -> Iterator[Any]:
    """All optimizers and modules there are."""
    for thing in gc.get_objects():
        if issubclass(type(thing), KINDS):
            yield thing
