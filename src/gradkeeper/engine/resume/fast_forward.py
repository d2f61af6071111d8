"""The way back to the place where a checkpoint was saved, in a program that runs again from its
first line.
"""

import sys
import weakref
from typing import Any

from gradkeeper import rng
from gradkeeper.engine.batches import Loop, Position
from gradkeeper.engine.errors import ResumeError
from gradkeeper.engine.journal import warn_at
from gradkeeper.engine.resume.elastic import Shares
from gradkeeper.engine.resume.loaders import Loaders
from gradkeeper.engine.resume.open_window import window_of
from gradkeeper.engine.resume.stateful import KeptState
from gradkeeper.engine.shared import Shared
from gradkeeper.tree import cloned

# Where the program is: in which of its loops, or behind which of them.
#
# A new process runs the same program from its first line. Loops that were done before the save are
# passed over, and the one that was running goes on. What the program does between loops it does
# again, so there the state is put back once more, at the very place where it was saved.


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


# The way back to the place where a checkpoint was saved.
#
# A new process runs the same program from its first line. Loops that were over are passed over, and
# the one that was running goes on. What the program does before that place it does again: so there
# the state is put back once more.


class FastForward:
    def __init__(
        self, run: KeptState, shared: Shared, loaders: Loaders, itinerary: Itinerary
    ) -> None:
        self.moved = False
        """Whether the program has done anything since the state was put back."""
        self._run = run
        self._shared = shared
        self._loaders = loaders
        self._itinerary = itinerary
        self._target: Target | None = None
        self._way = WayBack()
        weakref.finalize(self, self._way.tell_end)
        self._rng: State | None = None
        """To be put back at the next boundary."""

    @property
    def pending(self) -> bool:
        return self._target is not None

    def expect(self, state: State) -> None:
        self.moved = False
        _restore_rng(state)
        target = Target(state)
        if target.loops:
            self._target = target
            self._way.loops = target.loops

    def restore_rng(self) -> None:
        if self._rng is not None:
            rng.restore(self._rng)
            self._rng = None

    def start(self, loop: Loop) -> None:
        """The program's next loop: from its begin, from where it was, or over."""
        number = self._itinerary.started
        self._itinerary.started += 1
        target = self._target
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
        target = self._target
        if target is None or target.running or self._itinerary.started < target.loops:
            return False
        if self._itinerary.saves < target.saves:
            return False
        self._arrive(target)
        return True

    def _pass_over(self, loop: Loop, target: Target) -> None:
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

    def _go_on(self, loop: Loop, target: Target) -> None:
        saved = target.loop
        assert saved is not None
        shares = self._shares(target)
        shares.check(saved, loop.signature)
        if saved["epoch"] >= loop.epochs:
            raise ResumeError(
                f"the checkpoint is in epoch {saved['epoch'] + 1} of this loop, which has only "
                f"{loop.epochs} now"
            )
        self._arrive(target, loop)
        saved, feed = shares.of_loop(
            loop.stream.feed, saved, target.state["loaders"][saved["loader"]]
        )
        loop.handed = saved["handed"]
        loop.stream.restore(saved["stream"])
        loop.stream.resume_epoch(
            Position(saved["epoch"], saved["batch"]), feed, ended=saved["ended"]
        )
        window = target.state["window"]
        if window is not None:
            device = next(iter(self._run.owners.values())).home
            loop.open = window_of(cloned(window), device)
        # At the loop's first boundary, after all that its begin draws.
        self._rng = target.state["rng"]
        self._shared.asked = True

    def _arrive(self, target: Target, loop: Loop | None = None) -> None:
        self._target = None
        self._way.loops = 0
        if self.moved:
            self._run.restore(target.state)
            self._shared.ranks.restore(target.state["ranks"])
        number = None if loop is None else loop.loader
        shares = self._shares(target)
        self._loaders.restore(target.state["loaders"], but=number, shares=shares)
        _restore_rng(target.state)

    def _shares(self, target: Target) -> Shares:
        return Shares(target.state, self._shared.ranks.size)


def _restore_rng(state: State) -> None:
    """A rank that there was not before keeps its own."""
    if state["rng"] is not None:
        rng.restore(state["rng"])
