"""State is a tree of dicts, lists and tuples with values in them: how it is walked, once for all.

Dicts that torch hangs something on (the versions of modules on what Module.state_dict() gives) keep
it. Whatever is none of these is a leaf.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from torch import Tensor

StateTree = dict[str, Any]
"""The tree of something that is kept, by name."""
LeafValue = TypeVar("LeafValue")
DICTS = (dict, OrderedDict)
NOTHING = object()
"""In place of a value that only the other tree has."""


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same container with each of its parts changed; a leaf is given back as it is."""
    match value:
        case dict() if type(value) in DICTS:
            return _like(value, {key: change(part) for key, part in value.items()})
        case list():
            return [change(part) for part in value]
        case tuple() if type(value) is tuple:
            return tuple(change(part) for part in value)
    return value


def with_tensors(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """The same tree with each of its tensors changed."""
    return with_leaves(value, Tensor, change)


def with_leaves(value: Any, kind: type[LeafValue], change: Callable[[LeafValue], Any]) -> Any:
    """The same tree with each value of that kind changed."""

    def walk(value: Any) -> Any:
        return change(value) if isinstance(value, kind) else mapped(value, walk)

    return walk(value)


def leaves(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            for part in value.values():
                yield from leaves(part)
        case list() | tuple():
            for part in value:
                yield from leaves(part)
        case _:
            yield value


def zipped(values: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """One container of the parts of several alike, joined; the first where they are not alike."""
    first = values[0]
    match first:
        case dict() if type(first) in DICTS:
            return _like(first, {key: join([other[key] for other in values]) for key in first})
        case list() | tuple() if all(len(other) == len(first) for other in values):
            return type(first)(join(parts) for parts in zip(*values, strict=True))
    return first


def cloned(value: Any) -> Any:
    """The same values in memory of their own: who loads a state may train on in its tensors."""
    match value:
        case Tensor():
            return value.detach().clone()
        case dict():
            return {key: cloned(part) for key, part in value.items()}
    return mapped(value, cloned)


def differences(saved: Any, here: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two trees differ: the way there in words, and what is in each."""
    if isinstance(saved, dict) and isinstance(here, dict):
        for key in {**saved, **here}:
            below = f"{path} {key}" if path else str(key)
            yield from differences(saved.get(key, NOTHING), here.get(key, NOTHING), below)
    elif isinstance(saved, list) and isinstance(here, list) and len(saved) == len(here):
        for number, (before, other) in enumerate(zip(saved, here, strict=True)):
            yield from differences(before, other, f"{path}[{number}]")
    elif saved != here:
        yield path, saved, here


def _like(original: Any, made: dict[Any, Any]) -> Any:
    if type(original) is not OrderedDict:
        return made
    ordered = OrderedDict(made)
    vars(ordered).update(vars(original))
    return ordered
