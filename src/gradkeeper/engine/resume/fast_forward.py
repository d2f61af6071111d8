"""The way back to the place where a checkpoint was saved, in a program that runs again from its
first line.
"""

import sys
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from gradkeeper.engine.batches import EngineLoop, Position
from gradkeeper.engine.data import Feed, Unstated, feed_of
from gradkeeper.engine.errors import PositionError, ResumeError
from gradkeeper.engine.journal import warn_at
from gradkeeper.engine.resume.elastic import Shares
from gradkeeper.engine.resume.kept_state import KeptState, RandomNumbers
from gradkeeper.engine.resume.open_window import PendingWindow
from gradkeeper.engine.resume.stateful import Stateful
from gradkeeper.engine.shared import Shared
from gradkeeper.tree import StateTree

# Where the program is: in which of its loops, or behind which of them.
#
# A new process runs the same program from its first line. Loops that were done before the save are
# passed over, and the one that was running goes on. What the program does between loops it does
# again, so there the state is put back once more, at the very place where it was saved.


class Itinerary(Stateful):
    def __init__(self) -> None:
        self.started = 0
        """Loops begun so far."""
        self.active = False
        """Whether one of them is being read now."""
        self.saves = 0
        """Saves asked for since the last loop."""
        self.loop: EngineLoop | None = None
        """The last one, if it can be gone on with."""
        self._running = False
        """Whether that one has not come to its end."""
        self.target: Target | None = None
        """Where a checkpoint was saved, which the program has not come to yet."""

    def begin(self, loop: EngineLoop) -> None:
        self.loop, self._running, self.active = loop, True, True

    def end(self, *, whole: bool, fault: bool) -> None:
        """A loop that a fault left can be gone on with; one that was left by `break` is over."""
        self.active = False
        self.saves = 0
        self._running = fault
        if not whole and not fault:
            self.loop = None

    def state(self) -> StateTree:
        return {
            "loops": self.started,
            "running": self._running,
            "saves": self.saves,
            "loop": None if self.loop is None else self.loop.state(),
        }

    def restore(self, state: StateTree) -> None:
        target = Target(state)
        self.target = target if target.loops else None


class Target:
    """The place that a checkpoint was saved at."""

    def __init__(self, place: StateTree) -> None:
        self.loops: int = place["loops"]
        self.running: bool = place["running"]
        self.saves: int = place["saves"]
        self.loop: StateTree | None = place["loop"]
        self.moved: StateTree | None = place.get("moved")
        """What elastic.py notes where other ranks saved it."""

    def goes_on_in(self, number: int, epochs: int) -> bool:
        """Whether the loop of that number goes on from there."""
        if number != self.loops - 1 or self.loop is None:
            return False
        return self.running or epochs > int(self.loop["epochs"])

    def is_behind(self, number: int) -> bool:
        """Whether the loop of that number was over."""
        return number < self.loops


# The loaders of a run, by the order in which its loops first read them.
#
# Each has one feed for the whole run: workers that stay between epochs are the feed's, and a
# loader's own generator goes on from one loop to the next.


# A program that makes a new loader for each epoch must not keep them all.
MOST_LOADERS = 8


class Loaders(Stateful):
    def __init__(self, itinerary: Itinerary, *, unstated: Unstated) -> None:
        self._itinerary = itinerary
        self._unstated = unstated
        self._feeds: dict[int, tuple[Any, Feed]] = {}
        """By number: the loader, which must live as long as it is known by its address."""
        self._next = 0

    def of(self, loader: Iterable[Any]) -> tuple[int, Feed]:
        for number, (known, feed) in self._feeds.items():
            if known is loader:
                return number, feed
        number, feed = self._next, feed_of(loader, unstated=self._unstated)
        self._next += 1
        self._feeds[number] = (loader, feed)
        if len(self._feeds) > MOST_LOADERS:
            del self._feeds[next(iter(self._feeds))]
        return number, feed

    def state(self) -> dict[int, Any]:
        """Of all whose position can be kept; of the one that is read, or PositionError."""
        loop = self._itinerary.loop
        states = {}
        for number, (_, feed) in self._feeds.items():
            try:
                states[number] = feed.state()
            except PositionError:
                if loop is not None and number == loop.loader:
                    raise
        return states

    def restore(self, states: Mapping[int, Any]) -> None:
        """Those that the program has used so far: what they draw next is what was to be drawn."""
        for number, (_, feed) in self._feeds.items():
            if number in states:
                feed.resume(states[number])

    def shared_out(self, states: Mapping[int, Any], shares: Shares) -> dict[int, Any]:
        return {
            number: shares.of(feed, states[number])
            for number, (_, feed) in self._feeds.items()
            if number in states
        }


# What a person is told of the way back to a checkpoint's place, in a program of several loops.
#
# The engine counts loops from the program's first line. A program that starts at a later epoch by
# itself, as recipes for other tools do, has fewer of them: no count can tell the two apart, a
# person can.


class WayBack:
    def __init__(self) -> None:
        self.loops = 0
        """How many the checkpoint has seen begin; 0 once the program has come to its place."""
        self._passed = 0

    def pass_over(self) -> None:
        self._passed += 1
        if self._passed == 1 and self.loops > 1:
            _say(
                f"goes on from loop {self.loops} of this program, and hands out nothing in those "
                "before it: a program that resumes starts with its first loop, not a later epoch's"
            )

    def tell_end(self) -> None:
        """As the engine goes, or the program ends. One that never looped only wanted the state."""
        if 0 < self._passed < self.loops:
            _say(
                f"the checkpoint is from loop {self.loops} of the program, and this process ends "
                f"after {self._passed}, with nothing trained: call engine.windows() or batches() "
                "as often as before the save"
            )


def _say(line: str) -> None:
    if sys.stderr is not None:
        print(f"gradkeeper: {line}", file=sys.stderr, flush=True)


# The way back itself.


class FastForward:
    def __init__(
        self,
        run: KeptState,
        shared: Shared,
        itinerary: Itinerary,
        loaders: Loaders,
        window: PendingWindow,
    ) -> None:
        self.moved = False
        """Whether the program has done anything since the state was put back."""
        self._run = run
        self._shared = shared
        self._itinerary = itinerary
        self._loaders = loaders
        self._window = window
        self._random_numbers = RandomNumbers()
        self._state: StateTree = {}
        """What is put back, until the program has come to its place."""
        self._way = WayBack()
        weakref.finalize(self, self._way.tell_end)
        self._rng: StateTree | None = None
        """To be put back at the next boundary."""

    @property
    def pending(self) -> bool:
        return self._itinerary.target is not None

    def expect(self, state: StateTree) -> None:
        self.moved = False
        self._random_numbers.restore(state["rng"])
        self._itinerary.restore(state["place"])
        if self._itinerary.target is not None:
            self._state = state
            self._way.loops = self._itinerary.target.loops

    def restore_rng(self) -> None:
        self._random_numbers.restore(self._rng)
        self._rng = None

    def start(self, loop: EngineLoop) -> None:
        """The program's next loop: from its begin, from where it was, or over."""
        number = self._itinerary.started
        self._itinerary.started += 1
        target = self._itinerary.target
        if target is None:
            return
        if target.goes_on_in(number, loop.epochs):
            self._go_on(loop, target)
        elif target.is_behind(number):
            self._pass_over(loop, target)
        else:
            self._arrive(target)

    def meets_save(self) -> bool:
        """Whether this call of save() is the one that wrote the checkpoint."""
        target = self._itinerary.target
        if target is None or target.running or self._itinerary.started < target.loops:
            return False
        if self._itinerary.saves < target.saves:
            return False
        self._arrive(target)
        return True

    def _pass_over(self, loop: EngineLoop, target: Target) -> None:
        loop.over = True
        self.moved = True
        self._way.pass_over()
        self._itinerary.saves = 0
        if self._itinerary.started < target.loops:
            return
        if target.loop is None:
            warn_at(
                self._shared.journal.here(),
                "this loop was left by `break` before the checkpoint was saved: it is over, and "
                "hands out nothing",
            )
        else:
            loop.epochs = target.loop["epochs"]
            loop.stream.pass_over(Position(target.loop["epoch"], target.loop["batch"]))
            self._itinerary.loop = loop
        if not target.saves:
            self._arrive(target)

    def _go_on(self, loop: EngineLoop, target: Target) -> None:
        saved, state = target.loop, self._state
        assert saved is not None
        shares = self._shares(target)
        shares.check(saved, loop.signature)
        if saved["epoch"] >= loop.epochs:
            raise ResumeError(
                f"the checkpoint is in epoch {saved['epoch'] + 1} of this loop, which has only "
                f"{loop.epochs} now"
            )
        self._arrive(target, loop)
        doubt = shares.doubt(loop.stream.feed, saved)
        if doubt and self._shared.ranks.first:
            warn_at(self._shared.journal.here(), doubt)
        loop.restore(*shares.of_loop(loop.stream.feed, saved, state["loaders"][saved["loader"]]))
        self._window.restore(state["window"])
        loop.open = self._window.again
        # At the loop's first boundary, after all that its begin draws.
        self._rng = state["rng"]
        self._shared.asked = True

    def _arrive(self, target: Target, loop: EngineLoop | None = None) -> None:
        state, self._state = self._state, {}
        self._itinerary.target = None
        self._way.loops = 0
        if self.moved:
            self._run.restore(state)
        number = None if loop is None else loop.loader
        others = {key: saved for key, saved in state["loaders"].items() if key != number}
        self._loaders.restore(self._loaders.shared_out(others, self._shares(target)))
        self._random_numbers.restore(state["rng"])

    def _shares(self, target: Target) -> Shares:
        return Shares(target.moved, self._shared.ranks.size)
