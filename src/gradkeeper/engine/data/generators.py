"""Generators that a sampler, a dataset, a transform or a function holds, wherever in it they are;
and all that something may draw from.
"""

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader

from gradkeeper import rng
from gradkeeper.engine.errors import PositionError

# Generators that are held. The near ones come first, and there is an end to the search: a dataset
# may hold a million items.


# A search of 2000 objects takes about a millisecond.
MOST = 2000
WIDEST = 64
LIBRARIES = ("builtins", "collections", "numpy", "torch", "torchvision", "typing")
LEAVES = (str, bytes, int, float, complex, type(None), type, types.ModuleType, torch.Tensor)


# What is in a loader's iterator is made anew with each: queues, processes, counts of batches.
ITERATOR = "_iterator"


@dataclass(frozen=True, slots=True)
class GeneratorSlot:
    """Where a generator is: read anew each time, because it may be replaced by another one."""

    read: Callable[[], Any]
    put: Callable[[Any], None]

    def now(self) -> Any:
        """None as well where there is no such place any more."""
        try:
            return self.read()
        except (AttributeError, LookupError, ValueError):
            return None


class Search:
    """What was found, by name as `dataset.transforms[0].rng`, without those of the process."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.found: dict[str, GeneratorSlot] = {}
        self._empty: list[GeneratorSlot] = []
        self._objects: list[dict[str, Any]] = []
        seen = {id(generator) for generator in rng.shared().values()}
        waiting = deque((name, root, _fixed(root)) for name, root in roots.items())
        while waiting and len(seen) < MOST:
            name, thing, slot = waiting.popleft()
            if thing is None:
                self._empty.append(slot)
            if id(thing) in seen or isinstance(thing, LEAVES):
                continue
            seen.add(id(thing))
            if rng.is_generator(thing):
                self.found[name] = slot
            else:
                self._objects.append(getattr(thing, "__dict__", {}))
                waiting.extend(parts(name, thing))
        self._sizes = self._measured()

    def is_old(self) -> bool:
        """Something has come since: many datasets make their generator on first use."""
        filled = any(slot.now() is not None for slot in self._empty)
        return filled or self._measured() != self._sizes

    def _measured(self) -> list[int]:
        return [len(attributes) for attributes in self._objects]


def holder(roots: Mapping[str, Any], name: str) -> GeneratorSlot | None:
    """The slot of that name, though no generator is there yet; None if there is no such slot."""
    seen: set[int] = set()
    waiting = deque((name, root, _fixed(root)) for name, root in roots.items())
    while waiting and len(seen) < MOST:
        at, thing, slot = waiting.popleft()
        if at == name:
            return slot
        if name.startswith(at) and id(thing) not in seen:
            seen.add(id(thing))
            waiting.extend(parts(at, thing))
    return None


def near(roots: Mapping[str, Any]) -> Iterator[tuple[str, Any, list[tuple[str, Any]]]]:
    """What is in there but generators, the nearest first, each once: its name, and its parts."""
    seen: set[int] = set()
    waiting = deque(roots.items())
    while waiting and len(seen) < MOST:
        name, thing = waiting.popleft()
        if id(thing) in seen or isinstance(thing, LEAVES) or rng.is_generator(thing):
            continue
        seen.add(id(thing))
        held = [(place, part) for place, part, _ in parts(name, thing)]
        yield name, thing, held
        waiting.extend(held)


def parts(name: str, thing: Any) -> Iterator[tuple[str, Any, GeneratorSlot]]:
    match thing:
        case dict():
            for key in list(thing)[:WIDEST]:
                yield f"{name}[{key!r}]", thing[key], _item(thing, key)
        case list():
            for number, part in enumerate(thing[:WIDEST]):
                yield f"{name}[{number}]", part, _item(thing, number)
        case tuple():
            for number, part in enumerate(thing[:WIDEST]):
                yield f"{name}[{number}]", part, _fixed(part)
        case functools.partial():
            yield f"{name}.func", thing.func, _fixed(thing.func)
            yield f"{name}.args", thing.args, _fixed(thing.args)
            yield f"{name}.keywords", thing.keywords, _fixed(thing.keywords)
        case types.MethodType():
            yield f"{name}.self", thing.__self__, _fixed(thing.__self__)
        case types.FunctionType():
            yield from _of_function(name, thing)
        case _:
            yield from _of_object(name, thing)


def _of_function(
    name: str, function: types.FunctionType
) -> Iterator[tuple[str, Any, GeneratorSlot]]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for variable, cell in cells:
        try:
            yield f"{name}.{variable}", cell.cell_contents, _attribute(cell, "cell_contents")
        except ValueError:
            continue  # a variable that is not assigned yet
    # `rng = default_rng(0)` at the top of a script, used by a dataset below.
    for variable in function.__code__.co_names:
        if rng.is_generator(function.__globals__.get(variable)):
            slot = _item(function.__globals__, variable)
            yield f"{function.__module__}.{variable}", slot.read(), slot


def _of_object(name: str, thing: Any) -> Iterator[tuple[str, Any, GeneratorSlot]]:
    own = getattr(thing, "__dict__", {})
    for attribute in [*own, *_slots(thing)][:MOST]:
        if attribute == ITERATOR and isinstance(thing, DataLoader):
            continue
        try:
            value = getattr(thing, attribute)
        except AttributeError:
            continue
        yield f"{name}.{attribute}", value, _attribute(thing, attribute)
    for method in _methods(type(thing)):
        yield f"{name}.{method.__name__}", method, _fixed(method)


def _methods(kind: type) -> Iterator[types.FunctionType]:
    """Those that its author wrote: torch's own draw from what they are given."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] not in LIBRARIES:
            yield from (
                member for member in vars(base).values() if isinstance(member, types.FunctionType)
            )


def _slots(thing: Any) -> list[str]:
    names: list[str] = []
    for base in type(thing).__mro__:
        slots = vars(base).get("__slots__", ())
        names.extend([slots] if isinstance(slots, str) else slots)
    return [name for name in names if not name.startswith("__")]


def _fixed(thing: Any) -> GeneratorSlot:
    def refuse(_: Any) -> None:
        raise TypeError("a generator in a tuple or a function's arguments cannot be replaced")

    return GeneratorSlot(lambda: thing, refuse)


def _item(container: Any, key: Any) -> GeneratorSlot:
    return GeneratorSlot(lambda: container[key], functools.partial(container.__setitem__, key))


def _attribute(thing: Any, name: str) -> GeneratorSlot:
    return GeneratorSlot(lambda: getattr(thing, name), functools.partial(setattr, thing, name))


# All that something may draw random numbers from: the process's generators, and its own.


Reading = dict[str, tuple[str, Any]]
"""By name of the generator: its kind and its state."""


class RandomSources:
    def __init__(self, roots: Mapping[str, Any]) -> None:
        self._roots = roots
        self._shared = rng.shared()
        self._search = Search(roots)
        self._own: dict[str, GeneratorSlot] = dict(self._search.found)

    @property
    def has_own(self) -> bool:
        return bool(self._own)

    def look_again(self) -> None:
        """For generators that were made since; costs next to nothing where there is none."""
        if self._search.is_old():
            self._search = Search(self._roots)
            self._own = self._search.found | self._own

    def read(self) -> Reading:
        return rng.readings(self._shared) | self.read_own()

    def read_own(self) -> Reading:
        return rng.readings({name: slot.now() for name, slot in self._own.items()})

    def write(self, reading: Reading) -> None:
        for name, (kind, drawn) in reading.items():
            rng.write(self._generator(name, kind), drawn)

    def _generator(self, name: str, kind: str) -> Any:
        if name in self._shared:
            return self._shared[name]
        slot = self._own.get(name) or holder(self._roots, name)
        if slot is None:
            raise PositionError(
                f"the saved position holds the state of a generator at `{name}`, and there is no "
                "such slot now: build the loader as it was built before"
            )
        self._own[name] = slot
        generator = slot.now()
        if rng.is_generator(generator) and rng.kind(generator) == kind:
            return generator
        # Made on first use, and this process has not used it yet.
        generator = rng.made(kind)
        slot.put(generator)
        return generator


def changed(reading: Reading, before: Reading) -> Reading:
    return {name: drawn for name, drawn in reading.items() if before.get(name) != drawn}
