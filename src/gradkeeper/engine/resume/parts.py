"""What each rank saves of a run, and what it reads again: its own part, and what all share."""

from collections.abc import Callable
from typing import Any

from gradkeeper.engine.resume.moving import on_other_ranks
from gradkeeper.engine.resume.run import Run
from gradkeeper.engine.resume.sharded import in_shards

State = dict[str, Any]
SHARED = ("engine", "shape", "owners")


class Parts:
    def __init__(self, run: Run, *, rank: int, size: int, copies: bool) -> None:
        """`copies`: all ranks hold the same weights, so the first one saves them for all."""
        self._run = run
        self._rank = rank
        self._size = size
        self._copies = copies

    def own(self, state: State) -> State:
        if not self._copies or self._rank == 0:
            saved: State = in_shards(state)
            return saved
        own = {key: value for key, value in state.items() if key not in SHARED}
        return own | {"buffers": self._run.buffers()}

    def assemble(self, read: Callable[[int], State], parts: int) -> State:
        if parts != self._size:
            return on_other_ranks([read(part) for part in range(parts)], self._rank, self._size)
        own = read(self._rank)
        return own if "owners" in own else read(0) | own
