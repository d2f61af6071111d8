"""Where a run is in its loader, and how it gets there again in another process."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

from gradkeeper.engine.data.indexed import IndexedFeed, is_indexed
from gradkeeper.engine.data.reading import ReadFeed
from gradkeeper.engine.data.sampled import SampledFeed
from gradkeeper.engine.data.samplers import is_stateful
from gradkeeper.engine.data.stated import StatedFeed
from gradkeeper.torch_private import can_be_copied

Unstated = Literal["read", "refuse"]


class Feed(Protocol):
    """Batches of a loader, bit for bit those of a plain `for batch in loader`.

    One feed per loader and run: workers that stay from epoch to epoch are the feed's.
    """

    @property
    def length(self) -> int | None:
        """Batches in an epoch, where that is known."""

    @property
    def shape(self) -> dict[str, Any]:
        """What must be the same on resume; `difference` compares two."""

    def check(self) -> None:
        """PositionError if the position cannot be kept: better at the start than at a save."""

    def begin(self, epoch: int) -> Iterator[Any]:
        """What `iter(loader)` does."""

    def state(self) -> dict[str, Any]:
        """The position between two batches, in plain values: nothing is asked of the loader."""

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        """That position for another number of ranks: after `batch` batches of this rank's share."""

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        """The rest of that epoch, in a new process or the same.

        It draws random numbers: Python's, NumPy's and torch's generators are to be set to their
        state at the save after this call, and before the first batch.
        """

    def release(self) -> None:
        """The loop was left: its workers end, as they do after `break` from a plain loop.

        The position stays known.
        """


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
