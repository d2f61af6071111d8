"""A checkpoint that another number of ranks wrote; and which part of one a rank reads."""

from collections.abc import Callable
from typing import Any

from gradkeeper.engine.data import Feed
from gradkeeper.engine.data.signature import of_any_rank
from gradkeeper.engine.errors import ResumeError
from gradkeeper.engine.resume.kept_state import KeptState, refuse_difference
from gradkeeper.engine.resume.shards import in_shards, joined
from gradkeeper.engine.resume.weights import is_imported
from gradkeeper.tree import StateTree

# Between windows the weights are all that ranks have in common with those before them, and the
# items that all of them together have read: the rest of an epoch is shared out anew. In mid-window,
# parts of one step lie with ranks that are no more.


ITEMS = "dataset_length"
"""In a loader's signature."""
OTHER = "this loop is not that of the checkpoint"


def on_other_ranks(parts: list[StateTree], rank: int, size: int) -> StateTree:
    """What the rank of that number, of `size`, goes on from: the ranks' states, zipped."""
    _refuse_open_windows([part["window"] for part in parts], size)
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: ZIPPED[name]([part.get(name) for part in parts], rank) for name in names}


def _first(states: list[Any], rank: int) -> Any:
    return states[0]


def _own_or_first(states: list[Any], rank: int) -> Any:
    return states[rank if rank < len(states) else 0]


def _own(states: list[Any], rank: int) -> Any:
    """None for a rank that there was not before: what another draws or has seen is not its."""
    return states[rank] if rank < len(states) else None


def _whole(states: list[Any], rank: int) -> Any:
    """Of ranks that hold copies, only the first has saved it."""
    return joined([state for state in states if state is not None])


def _tracked(states: list[Any], rank: int) -> StateTree:
    whole: StateTree = {}
    for name, value in _own_or_first(states, rank).items():
        others = [state[name] for state in states if name in state]
        whole[name] = joined([value, *others]) if _alike(value, others) else value
    return whole


def _alike(value: Any, others: list[Any]) -> bool:
    """Whether shards may be in there: then all ranks have the same names."""
    if not isinstance(value, dict):
        return False
    return all(isinstance(other, dict) and other.keys() == value.keys() for other in others)


def _place(states: list[Any], rank: int) -> StateTree:
    """With the micro-batches of the epoch that all ranks together have read."""
    loops = [state["loop"] for state in states if state["loop"] is not None]
    batches = sum(loop["batch"] for loop in loops)
    own: StateTree = _own_or_first(states, rank)
    return own | {"moved": {"ranks": len(states), "batches": batches}}


def _closed(states: list[Any], rank: int) -> None:
    return None


ZIPPED: dict[str, Callable[[list[Any], int], Any]] = {
    "rng": _own,
    "engine": _first,
    "shape": _first,
    "owners": _whole,
    "buffers": _own,
    "tracked": _tracked,
    "place": _place,
    "loaders": _own_or_first,  # shared out when the loaders are known: see `Shares`
    "window": _closed,
    "ranks": _own_or_first,
}
"""By name in a run's state: one rank's, from those of another number of ranks."""


def _refuse_open_windows(windows: list[StateTree | None], size: int) -> None:
    open_ones = [window for window in windows if window is not None]
    if any(window["read"] or window["counted"] for window in open_ones):
        before = f"{len(windows)} rank" if len(windows) == 1 else f"{len(windows)} ranks"
        raise ResumeError(
            f"the checkpoint was saved in mid-window by {before}, with gradients of their own, and "
            f"the number of ranks here is {size}: go on with {before}, and change their number at "
            "a checkpoint that was saved between windows (save_every saves there)"
        )


class Shares:
    """How places in loaders are shared out anew; where the ranks are as many as before, not."""

    def __init__(self, moved: StateTree | None, size: int) -> None:
        """`moved`: of the checkpoint's place."""
        self._ranks: int = size if moved is None else moved["ranks"]
        self._batches: int = 0 if moved is None else moved["batches"]
        self._size = size

    @property
    def same(self) -> bool:
        return self._ranks == self._size

    def of(self, feed: Feed, state: StateTree) -> StateTree:
        if self.same:
            return state
        return feed.shared_out(state, state["batch"] * self._ranks // self._size)

    def of_loop(
        self, feed: Feed, saved: StateTree, state: StateTree
    ) -> tuple[StateTree, StateTree]:
        """The loop's place and its loader's."""
        if self.same:
            return saved, state
        batch = self._batches // self._size
        return saved | {"batch": batch}, feed.shared_out(state, batch)

    def doubt(self, feed: Feed, saved: StateTree) -> str:
        """Why items may be read twice, or not at all; empty where that cannot be."""
        dealt_out = "num_replicas" in feed.signature
        if self.same or dealt_out or saved["ended"] or not self._batches:
            return ""
        return (
            f"{self._ranks} ranks have read {self._batches} micro-batches of this epoch, and "
            f"{self._size} go on behind as many: whether each item is read once depends on how "
            "your loader shares them out. With torch's DistributedSampler it is"
        )

    def check(self, saved: StateTree, here: StateTree) -> None:
        """ResumeError where the loop is another, or cannot be shared out."""
        if self.same:
            refuse_difference(OTHER, saved["shape"], here)
            return
        whole, now_whole = _of_any_rank(saved["shape"]), _of_any_rank(here)
        items, now_items = (shape["loader"].get(ITEMS) or 0 for shape in (whole, now_whole))
        if items * self._ranks == now_items * self._size:
            # Each rank's dataset is its share, which the user cut.
            whole["loader"].pop(ITEMS, None)
            now_whole["loader"].pop(ITEMS, None)
        refuse_difference(OTHER, whole, now_whole)
        before, now = saved["shape"]["size"], here["size"]
        if before * self._ranks != now * self._size:
            raise ResumeError(
                f"a window was {before} micro-batches on each of {self._ranks} ranks, and is {now} "
                f"on each of {self._size}: all together, ranks must read as many as before"
            )
        if self._batches % self._size and not saved["ended"]:
            raise ResumeError(
                f"the ranks have read {self._batches} micro-batches of this epoch, which cannot be "
                f"shared out among {self._size}: go on with {self._ranks} to the epoch's end"
            )


def _of_any_rank(shape: StateTree) -> StateTree:
    return {"loop": shape["loop"], "loader": of_any_rank(shape["loader"])}


# What each rank saves of a run, and what it reads again: its own part, and what all share.


SHARED = ("engine", "shape", "owners")


class RankParts:
    def __init__(self, run: KeptState, *, rank: int, size: int, copies: bool) -> None:
        """`copies`: all ranks hold the same weights, so the first one saves them for all."""
        self._run = run
        self._rank = rank
        self._size = size
        self._copies = copies

    def own(self, state: StateTree) -> StateTree:
        if not self._copies or self._rank == 0:
            saved: StateTree = in_shards(state)
            return saved
        own = {key: value for key, value in state.items() if key not in SHARED}
        return own | {"buffers": self._run.buffers.state()}

    def assemble(self, read: Callable[[int], StateTree], parts: int) -> StateTree:
        if parts == 1 != self._size:
            only = read(0)
            return only if is_imported(only) else on_other_ranks([only], self._rank, self._size)
        if parts != self._size:
            return on_other_ranks([read(part) for part in range(parts)], self._rank, self._size)
        own = read(self._rank)
        return own if "owners" in own or is_imported(own) else read(0) | own
