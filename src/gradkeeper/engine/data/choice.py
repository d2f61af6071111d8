"""Which feed fits a loader."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from gradkeeper.engine.data.feed import Feed
from gradkeeper.engine.data.map_style import SampledFeed
from gradkeeper.engine.data.other_loaders import IndexedFeed, ReadFeed, StatedFeed, is_indexed
from gradkeeper.engine.data.samplers import is_stateful
from gradkeeper.torch_private import can_be_copied

Unstated = Literal["read", "refuse"]


def feed_of(loader: Iterable[Any], *, unstated: Unstated = "read") -> Feed:
    """`unstated`: what to do with a loader that cannot say where it is."""
    if is_stateful(loader):
        return StatedFeed(loader)
    if can_be_copied(loader):
        return SampledFeed(loader)  # type: ignore[arg-type]
    if is_indexed(loader):
        return IndexedFeed(loader)
    return ReadFeed(loader, refusal=_refusal(loader, unstated))


def _refusal(loader: Any, unstated: Unstated) -> str:
    name = type(loader).__qualname__
    if isinstance(loader, Iterator):
        return (
            f"a {name} can be read once only, so a new process cannot find its place in it: pass a "
            "DataLoader, a list, or an object whose __iter__ starts anew"
        )
    if unstated == "refuse":
        return (
            f"the place in a {_what(loader)} can be found only by reading up to it: give it "
            'state_dict() and load_state_dict(), or allow reading with unstated="read"'
        )
    return ""


def _what(loader: Any) -> str:
    dataset = getattr(loader, "dataset", None)
    name = type(loader).__qualname__
    return name if dataset is None else f"{name} over {type(dataset).__qualname__}"
