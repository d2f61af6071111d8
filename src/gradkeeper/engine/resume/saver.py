"""Keeps a run, so that another process can go on with it: when to save, and how to come back."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradkeeper import rng
from gradkeeper.engine.batches import Loop
from gradkeeper.engine.errors import EngineError, SetupError
from gradkeeper.engine.journal import warn_of_versions
from gradkeeper.engine.preemption import leave_process, leave_soon, listen
from gradkeeper.engine.resume.elastic import Parts
from gradkeeper.engine.resume.fast_forward import FastForward, Itinerary
from gradkeeper.engine.resume.loaders import Loaders
from gradkeeper.engine.resume.run_folder import Folder
from gradkeeper.engine.resume.stateful import KeptState
from gradkeeper.engine.shared import Shared
from gradkeeper.model import events as ev

State = dict[str, Any]


class Saver:
    def __init__(
        self,
        run: KeptState,
        shared: Shared,
        loaders: Loaders,
        folder: Folder | None = None,
        save_every: int | None = None,
    ) -> None:
        if folder is None and save_every is not None:
            raise SetupError("save_every needs a place to save to: Engine(checkpoint=…)")
        if save_every is not None and (not isinstance(save_every, int) or save_every < 1):
            raise SetupError(f"save_every is a number of steps from 1 on, not {save_every!r}")
        self._run = run
        self._shared = shared
        self._loaders = loaders
        self._folder = folder
        self._every = save_every
        self._itinerary = Itinerary()
        self._fast_forward = FastForward(run, shared, loaders, self._itinerary)
        self._explicit = False
        self._periodic = False
        self._preempted = False
        self._busy = False
        self._rounds = 0
        """How often `save_every` steps were taken."""
        self._saved = self._place()
        ranks = shared.ranks
        self._parts = Parts(run, rank=ranks.rank or 0, size=ranks.size, copies=ranks.copies)
        shared.boundary = self.boundary
        if folder is not None:
            ranks.keeps(self._hear)
            listen(self)

    # What the user asks

    def ask(self) -> None:
        if self._folder is None:
            raise SetupError("engine.save() needs a place to save to: Engine(checkpoint=…)")
        if not self._itinerary.active:
            self._itinerary.saves += 1
        if self._fast_forward.meets_save():
            self._saved = self._place()
        if self._fast_forward.pending:
            return
        self._explicit = self._shared.asked = True
        self._shared.ranks.want(save=True)
        if not self._itinerary.active and self._shared.open is None:
            self._shared.ranks.meet()
            self.boundary()

    def resume(self) -> bool:
        if self._folder is None:
            raise SetupError("engine.resume() needs a place to go on from: Engine(checkpoint=…)")
        self._must_be_fresh()
        found = self._folder.load(self._parts.assemble)
        if found is None:
            return False
        warn_of_versions(self._shared.journal.here(), found.versions)
        self.load(found.state)
        return True

    def load(self, state: State) -> None:
        self._must_be_fresh()
        self._run.check(state)
        self._run.restore(state)
        self._shared.ranks.restore(state["ranks"])
        self._shared.journal.here()
        self._shared.journal.write(ev.Restore, accounts=self._accounts())
        self._fast_forward.expect(state)
        self._rounds = self._steps_saved()
        self._saved = self._place()

    def state(self) -> State:
        """Now, wherever the program is."""
        loop, window = self._itinerary.loop, self._shared.open
        if window is not None and not window.resumable:
            raise EngineError(
                "inside a window without a loader, or a closure, there is no state to go on from: "
                "ask between windows"
            )
        if loop is not None and not loop.stream.between:
            raise EngineError("a batch is fetched and not read yet: ask after the next one is read")
        if self._fast_forward.pending:
            raise EngineError("this run has not come to the place it resumes from: ask in its loop")
        return {
            "rng": rng.state(),
            **self._run.state(),
            "place": self._itinerary.state(),
            "loaders": self._loaders.states(None if loop is None else loop.loader),
            "window": None if window is None else window.kept().state,
            "ranks": self._shared.ranks.state(),
        }

    # What the engine tells

    @contextmanager
    def reading(self, loop: Loop) -> Iterator[None]:
        """Around all that a loop does; it may be over before it begins, or go on in mid-epoch."""
        if self._folder is not None:
            loop.stream.feed.check()
        self._fast_forward.start(loop)
        if loop.over:
            yield
            return
        itinerary = self._itinerary
        itinerary.begin(loop)
        try:
            yield
        except GeneratorExit:
            # By `break`, or by an exception in its body. That one is not saved after: its window
            # was discarded, and from the save before it the run goes on with nothing lost.
            itinerary.end(whole=False, fault=self._shared.faulted)
            if not self._shared.faulted:
                if self._explicit:
                    self._shared.ranks.meet()
                self._settle()
                if self._preempted:
                    leave_soon()
            raise
        except BaseException:
            itinerary.end(whole=False, fault=True)
            raise
        finally:
            loop.stream.feed.release()
        itinerary.end(whole=True, fault=False)
        self.boundary()
        if self._folder is not None:
            self._folder.wait()

    def closed(self) -> None:
        """A window was settled."""
        self._fast_forward.moved = True
        if self._every is not None and self._steps_saved() > self._rounds:
            self._rounds = self._steps_saved()
            self._periodic = self._shared.asked = True
        if self._shared.asked and not self._itinerary.active:
            self.boundary()

    def boundary(self) -> None:
        self._shared.asked = False
        self._fast_forward.restore_rng()
        if self._settle():
            leave_process()
        # What the other ranks have not heard of yet waits for the next boundary.
        self._shared.asked = self._explicit or self._preempted

    def preempt(self) -> bool:
        """A signal came: ends at once, if nothing would be lost, else at the next boundary."""
        self._preempted = self._shared.asked = True
        self._shared.ranks.want(stop=True)
        idle = not self._itinerary.active and self._shared.open is None
        if not idle or self._busy:
            return False
        if self._place() == self._saved and self._shared.ranks.rank is None:
            return True
        print(
            "gradkeeper: told to end: saves at the next window and exits; a second signal ends now",
            file=sys.stderr,
        )
        return False

    # Saving

    def _hear(self) -> None:
        """Some rank, this one perhaps, asked for a save or a stop."""
        self._shared.asked = True

    def _settle(self) -> bool:
        """Saves, if somebody asked; before the program has come back, it was saved already.

        True if the process is to end now.
        """
        explicit, stop = self._shared.ranks.wanted(save=self._explicit, stop=self._preempted)
        periodic, self._periodic = self._periodic, False
        if explicit:
            self._explicit = False
        if self._folder is None or self._fast_forward.pending:
            return stop
        self._busy = True
        try:
            if explicit or periodic or (stop and self._is_new()):
                self._save(behind=not explicit and not stop)
            if stop:
                self._folder.wait()
        finally:
            self._busy = False
        return stop

    def _is_new(self) -> bool:
        """Asked of one process: a rank that has run out of data stays where it is, others do not,
        and all must save or none."""
        return self._shared.ranks.rank is not None or self._place() != self._saved

    def _save(self, *, behind: bool) -> None:
        assert self._folder is not None
        journal = self._shared.journal
        journal.here()
        state = self.state()
        self._folder.save(self._parts.own(state), self._facts(state), behind=behind)
        self._saved = self._place()
        pending = self._shared.open is not None
        owners = tuple(self._run.owners)
        journal.write(ev.Save, accounts=self._accounts(), optimizers=owners, gradients=pending)

    def _facts(self, state: State) -> State:
        """What a person asks of a checkpoint."""
        facts: State = {"steps": {name: one.steps for name, one in self._run.owners.items()}}
        place, window = state["place"]["loop"], state["window"]
        if place is not None:
            facts |= {"loop": state["place"]["loops"], "epoch": place["epoch"] + 1}
            facts |= {"batch": place["batch"]}
            facts |= {"position": state["loaders"][place["loader"]].get("digest")}
        if window is not None:
            facts |= {"window": f"open, {window['read']} of {window['size']} micro-batches read"}
        return facts

    def _accounts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a for one in self._run.owners.values() for a in one.accounts))

    def _steps_saved(self) -> int:
        return self._run.steps // (self._every or 1)

    def _place(self) -> tuple[Any, ...]:
        """Changes whenever there is something new to save."""
        steps = tuple(owner.steps for owner in self._run.owners.values())
        loop = self._itinerary.loop
        return steps, None if loop is None else loop.place

    def _must_be_fresh(self) -> None:
        if self._itinerary.started or self._shared.open is not None:
            raise EngineError("a run is resumed before its first loop, and this one has begun")
