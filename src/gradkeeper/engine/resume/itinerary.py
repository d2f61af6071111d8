"""Where the program is: in which of its loops, or behind which of them.

A new process runs the same program from its first line. Loops that were done before the save are
passed over, and the one that was running goes on. What the program does between loops it does
again, so there the state is put back once more, at the very place where it was saved.
"""

from typing import Any

from gradkeeper.engine.loop import Loop

State = dict[str, Any]


class Itinerary:
    def __init__(self) -> None:
        self.started = 0
        """Loops begun so far."""
        self.active = False
        """Whether one of them is being read now."""
        self.saves = 0
        """Saves asked for since the last loop."""
        self.loop: Loop | None = None
        """The last one, if it can be gone on with."""
        self._running = False
        """Whether that one has not come to its end."""

    def begin(self, loop: Loop) -> None:
        self.loop, self._running, self.active = loop, True, True

    def end(self, *, whole: bool, fault: bool) -> None:
        """A loop that a fault left can be gone on with; one that was left by `break` is over."""
        self.active = False
        self.saves = 0
        self._running = fault
        if not whole and not fault:
            self.loop = None

    def state(self) -> State:
        return {
            "loops": self.started,
            "running": self._running,
            "saves": self.saves,
            "loop": None if self.loop is None else self.loop.state(),
        }

    @property
    def place(self) -> tuple[Any, ...]:
        """Changes whenever the program has gone on."""
        return self.started, self._running, None if self.loop is None else self.loop.place


class Target:
    """The place that a checkpoint was saved at, which the program has not come to yet."""

    def __init__(self, state: State) -> None:
        self.state = state
        place = state["place"]
        self.loops: int = place["loops"]
        self.running: bool = place["running"]
        self.saves: int = place["saves"]
        self.loop: State | None = place["loop"]

    def goes_on_in(self, number: int, epochs: int) -> bool:
        """Whether the loop of that number goes on from there."""
        if number != self.loops - 1 or self.loop is None:
            return False
        return self.running or epochs > int(self.loop["epochs"])

    def is_behind(self, number: int) -> bool:
        """Whether the loop of that number was over."""
        return number < self.loops
