"""The way back to the place where a checkpoint was saved.

A new process runs the same program from its first line. Loops that were over are passed over, and
the one that was running goes on. What the program does before that place it does again: so there
the state is put back once more.
"""

import weakref
from typing import Any

from gradkeeper import rng
from gradkeeper.engine.desk import Desk
from gradkeeper.engine.errors import ResumeError
from gradkeeper.engine.loop import Loop
from gradkeeper.engine.resume.itinerary import Itinerary, Target
from gradkeeper.engine.resume.loaders import Loaders
from gradkeeper.engine.resume.moving import Shares
from gradkeeper.engine.resume.open_window import window_of
from gradkeeper.engine.resume.run import Run
from gradkeeper.engine.resume.way import Way
from gradkeeper.engine.stream import Position
from gradkeeper.engine.warning import warn_at
from gradkeeper.tree import cloned

State = dict[str, Any]


class Returning:
    def __init__(self, run: Run, desk: Desk, loaders: Loaders, itinerary: Itinerary) -> None:
        self.moved = False
        """Whether the program has done anything since the state was put back."""
        self._run = run
        self._desk = desk
        self._loaders = loaders
        self._itinerary = itinerary
        self._target: Target | None = None
        self._way = Way()
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
                self._desk.journal.here(),
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
        shares.check(saved, loop.shape)
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
        self._desk.asked = True

    def _arrive(self, target: Target, loop: Loop | None = None) -> None:
        self._target = None
        self._way.loops = 0
        if self.moved:
            self._run.restore(target.state)
            self._desk.ranks.restore(target.state["ranks"])
        number = None if loop is None else loop.loader
        shares = self._shares(target)
        self._loaders.restore(target.state["loaders"], but=number, shares=shares)
        _restore_rng(target.state)

    def _shares(self, target: Target) -> Shares:
        return Shares(target.state, self._desk.ranks.size)


def _restore_rng(state: State) -> None:
    """A rank that there was not before keeps its own."""
    if state["rng"] is not None:
        rng.restore(state["rng"])
