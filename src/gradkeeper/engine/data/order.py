"""In place of a loader's index sampler: passes its indices on, and knows which and how many."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from gradkeeper.engine.data.digest import Digest, spelled
from gradkeeper.engine.data.plain import given, kept
from gradkeeper.engine.data.replay import NO_CALLS, Replay
from gradkeeper.engine.data.samplers import Samplers
from gradkeeper.engine.data.sources import Reading, Sources
from gradkeeper.engine.data.worker import Bare, Tasks
from gradkeeper.engine.errors import PositionError


class Order:
    """One epoch's indices after another's, drawn when the loader asks, as the sampler draws them.

    To find a place again the sampler is set back to the epoch's begin and asked anew: that costs
    the indices and reads no data.
    """

    def __init__(self, samplers: Samplers, sources: Sources, tasks: Tasks | Bare) -> None:
        self.created: Reading = {}
        """The generators after the loader's first `iter(sampler)`: workers are seeded from that."""
        self._samplers = samplers
        self._sources = sources
        self._tasks = tasks
        self._turns = 0
        self.begin()

    def begin(self) -> None:
        self._behind = Digest()
        """Of the indices of all batches that were handed out."""
        self._ahead: deque[str] = deque()
        """Indices that were asked for, spelled, whose batches are not handed out yet."""
        self._replay = Replay(self._sources)
        self._begun = self._sources.read()
        self._own = self._samplers.read()
        self._starts = 0
        self._number = 0
        self._indices: Iterator[Any] = iter(())
        self._found = False

    @property
    def digest(self) -> str:
        return str(self._behind)

    @property
    def begun(self) -> bool:
        """Whether a loader has ever asked."""
        return bool(self.created)

    def __iter__(self) -> Iterator[Any]:
        if not self._found:
            self._start()
        return self

    def __next__(self) -> Any:
        if self._turns:
            self._turns -= 1
            return self._tasks.idle()
        index = self._draw()
        return self._tasks.task(self._number - 1, index)

    def __len__(self) -> int:
        return len(self._samplers.index)

    def handed_out(self) -> None:
        # Nothing is ahead if the sampler itself failed.
        if self._ahead:
            self._behind.add(self._ahead.popleft())

    def state(self) -> dict[str, Any]:
        return {
            "begun": kept(self._begun),
            "created": kept(self.created),
            "samplers": self._own,
            "starts": self._starts,
            "replay": self._replay.state(),
            "digest": self.digest,
        }

    def shared_out(self, state: dict[str, Any]) -> dict[str, Any]:
        """The begin of that epoch, as a rank among another number of them draws from it."""
        held = self._samplers.of_any_rank(state["samplers"])
        starts = min(1, state["starts"])
        return state | {"samplers": held, "starts": starts, "replay": NO_CALLS, "digest": None}

    def find(self, state: dict[str, Any], batches: int) -> None:
        """To the place after so many batches; RNG and generators are left as they happen to be."""
        self._begun = given(state["begun"])
        self.created = given(state["created"])
        self._own = state["samplers"]
        self._samplers.write(self._own)
        self._sources.write(self._begun)
        self._replay.load(state["replay"])
        for _ in range(state["starts"]):
            self._start()
        for _ in range(batches):
            self._pass_over()
            self.handed_out()
        if state["digest"] not in (None, self.digest):
            raise PositionError(
                f"the sampler {type(self._samplers.index).__name__} gives other indices than those "
                f"of the {batches} batches before the save: build it with the same data and seeds, "
                "or give it state_dict() and load_state_dict()"
            )
        self._replay.pause()
        self._found = True

    def find_end(self) -> None:
        """As a loader does that is asked once more."""
        self._pass_over()

    def pass_turns(self, turns: int) -> None:
        """Workers take turns: so many come first with nothing to do, and each gets what was its."""
        self._turns = turns

    def _pass_over(self) -> None:
        try:
            self._draw()
        except Exception:
            # StopIteration too. The sampler failed here before the save as well, or the digest says
            # that it did not.
            return

    def _start(self) -> None:
        self._indices = self._replay.call(lambda: iter(self._samplers.index))
        self._starts += 1
        if not self.created:
            self.created = self._sources.read()

    def _draw(self) -> Any:
        settled = self._samplers.draw_at_first and self._number > 0
        index = self._replay.call(self._indices.__next__, own_only=settled)
        self._number += 1
        # Spelled here: a dataset may change the list that it is handed.
        self._ahead.append(spelled(index))
        return index
