"""Numbers that a loader's parts count up from epoch to epoch, such as the seed of a pipeline's
shuffle: a new process begins an epoch with those that the one before it began it with.
"""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gradkeeper import rng
from gradkeeper.engine.data.generators import LEAVES, MOST, holder, parts

Counted = dict[str, int]


def counted(roots: Mapping[str, Any]) -> Counted:
    """By name as `loader.dataset.pipeline[2].epoch`. The near ones, as with generators."""
    found: Counted = {}
    seen: set[int] = set()
    waiting = deque(roots.items())
    while waiting and len(seen) < MOST:
        name, thing = waiting.popleft()
        if id(thing) in seen or isinstance(thing, LEAVES) or rng.is_generator(thing):
            continue
        seen.add(id(thing))
        own = getattr(thing, "__dict__", {})
        for place, part, _ in parts(name, thing):
            attribute = place.removeprefix(f"{name}.")
            if type(part) is int and attribute in own:
                found[place] = part
            else:
                waiting.append((place, part))
    return found


def since(first: Counted, now: Counted) -> Counted:
    """What has changed."""
    return {name: value for name, value in now.items() if first.get(name) != value}


def put_back(roots: Mapping[str, Any], wanted: Counted) -> None:
    now = counted(roots)
    for name, value in wanted.items():
        slot = None if now.get(name) == value else holder(roots, name)
        if slot is not None:
            # One that cannot be set is seen in what is read then.
            with suppress(AttributeError, TypeError, ValueError):
                slot.put(value)
