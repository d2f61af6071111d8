"""Which feed fits a loader; and the plainest of them, that of a list of batches."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from gradkeeper.engine.data.feed import BatchCount, Feed, Handing, count_of, given, kept
from gradkeeper.engine.data.fingerprint import fingerprint_of
from gradkeeper.engine.data.generators import RandomSources
from gradkeeper.engine.data.known_loaders import never_the_same, place_is_lost
from gradkeeper.engine.data.map_style import SampledFeed
from gradkeeper.engine.data.read_again import ReadFeed
from gradkeeper.engine.data.samplers import chain, index_sampler, is_stateful
from gradkeeper.engine.data.signature import length_of, signature_of
from gradkeeper.engine.data.stateful_loader import StatedFeed, keeps_draws
from gradkeeper.torch_private import can_be_copied

Unstated = Literal["read", "refuse"]
UNSTATED: Unstated = "read"


def feed_of(loader: Iterable[Any], *, unstated: Unstated = UNSTATED) -> Feed:
    """`unstated`: what to do with a loader that cannot say where it is."""
    if _knows_its_place(loader):
        return StatedFeed(loader)
    if can_be_copied(loader):
        return SampledFeed(loader)  # type: ignore[arg-type]
    if is_indexed(loader):
        return IndexedFeed(loader)
    return ReadFeed(loader, refusal=_refusal(loader, unstated))


def _knows_its_place(loader: Any) -> bool:
    """Whether its state leads exactly there."""
    if not is_stateful(loader) or place_is_lost(loader):
        return False
    if not keeps_draws(loader):
        return True
    # A StatefulDataLoader whose parts have no state is read as any DataLoader is. That keeps what
    # its workers draw as well, and for a stream it is what torchdata itself would do.
    parts = (loader.dataset, *chain(index_sampler(loader)).values())
    return any(is_stateful(part) for part in parts)


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
    return never_the_same(loader)


def _what(loader: Any) -> str:
    dataset = getattr(loader, "dataset", None)
    name = type(loader).__qualname__
    return name if dataset is None else f"{name} over {type(dataset).__qualname__}"


# A list of batches, or anything that is read by number: its place is a number.


BUILT_IN = (list, tuple, range)


def is_indexed(loader: Any) -> bool:
    """Whether a for loop over it reads loader[0], loader[1], and so on."""
    kind = type(loader)
    if kind in BUILT_IN:
        return True
    if not hasattr(kind, "__getitem__"):
        return False
    own = getattr(kind, "__iter__", None)
    return own is None or own in (Sequence.__iter__, *(kind.__iter__ for kind in BUILT_IN))


class IndexedFeed:
    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader: Any = loader
        self._count = BatchCount(ended=True)
        self._sources = RandomSources({"loader": loader})

    @property
    def length(self) -> int | None:
        return length_of(self._loader)

    @property
    def signature(self) -> dict[str, Any]:
        return signature_of(self._loader)

    def check(self) -> None:
        return

    def begin(self, epoch: int) -> Iterator[Any]:
        self._count = BatchCount(epoch)
        return self._from(0)

    def state(self) -> dict[str, Any]:
        self._sources.look_again()
        count, generators = self._count.state(), kept(self._sources.read_own())
        return {**count, "digest": fingerprint_of([count, generators]), "generators": generators}

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        return state | {"batch": batch}

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        self._count = count_of(state)
        self._sources.write(given(state["generators"]))
        return self._from(self._count.batch)

    def release(self) -> None:
        return

    def _from(self, number: int) -> Iterator[Any]:
        return Handing(self._count, _numbered(self._loader, number).__next__)


def _numbered(batches: Any, number: int) -> Iterator[Any]:
    while True:
        try:
            batch = batches[number]
        except IndexError:
            return
        yield batch
        number += 1
