"""Keeps a run, so that another process can go on with it: when to save, and how to come back."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gradkeeper.checkpoint import WriteError
from gradkeeper.engine.batches import EngineLoop
from gradkeeper.engine.data import Unstated
from gradkeeper.engine.determinism import MachineFacts, Probe, changes, machine, on_gpu, probe
from gradkeeper.engine.errors import EngineError, SetupError
from gradkeeper.engine.journal import warn_at, warn_of_versions
from gradkeeper.engine.owner import Owner, TrainedWeights
from gradkeeper.engine.preemption import leave_process, leave_soon, listen
from gradkeeper.engine.resume.elastic import RankParts
from gradkeeper.engine.resume.fast_forward import FastForward, Itinerary, Loaders
from gradkeeper.engine.resume.kept_state import KeptState, RandomNumbers
from gradkeeper.engine.resume.open_window import PendingWindow
from gradkeeper.engine.resume.run_folder import Folder
from gradkeeper.engine.resume.stateful import Stateful, is_compiled
from gradkeeper.engine.resume.weights import is_imported, restore_imported
from gradkeeper.engine.shared import Shared
from gradkeeper.model import events as ev
from gradkeeper.tree import StateTree


class Saver:
    def __init__(
        self,
        owners: Mapping[str, Owner],
        shared: Shared,
        folder: Folder | None,
        *,
        save_every: int | None,
        unstated: Unstated,
    ) -> None:
        if folder is None and save_every is not None:
            raise SetupError("save_every needs a place to save to: Engine(checkpoint=…)")
        if save_every is not None and (not isinstance(save_every, int) or save_every < 1):
            raise SetupError(f"save_every is a number of steps from 1 on, not {save_every!r}")
        self._shared = shared
        self._folder = folder
        self._owners = owners
        self._every = save_every
        itinerary = Itinerary()
        loaders = Loaders(itinerary, unstated=unstated)
        window = PendingWindow(shared, owners)
        place: dict[str, Stateful] = {"place": itinerary, "loaders": loaders, "window": window}
        run = KeptState(owners, place, shared.ranks)
        self._run = run
        self._itinerary = itinerary
        self._fast_forward = FastForward(run, shared, itinerary, loaders, window)
        self.loaders = loaders
        self.track = run.tracked.add
        self._explicit = False
        self._periodic = False
        self._preempted = False
        self._busy = False
        self._left = False
        """Whether all is saved, and the process ends: what it leaves on its way is not saved."""
        self._rounds = 0
        """How often `save_every` steps were taken."""
        self._saved = self._place()
        ranks = shared.ranks
        self._parts = RankParts(run, rank=ranks.rank or 0, size=ranks.size, copies=ranks.copies)
        shared.boundary = self.boundary
        if folder is not None:
            ranks.keeps(self._hear)
            listen(self)

    # What the user asks

    def ask(self) -> None:
        if self._folder is None:
            raise SetupError("engine.save() needs a place to save to: Engine(checkpoint=…)")
        self._pass_save()
        if self._fast_forward.pending:
            return
        self._explicit = self._shared.asked = True
        self._shared.ranks.want(save=True)
        if not self._itinerary.active and self._shared.open is None:
            self._shared.ranks.meet()
            self.boundary()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What runs here is not training: it may be cut off by a signal, and nothing is lost."""
        if self._shared.open is not None:
            raise EngineError(
                "a window is open, and its gradients are pending: leave its block before "
                "engine.aside()"
            )
        self._pass_save()
        if self._keeps_here():
            self._periodic = self._is_new()
            self.boundary()
        drawn = RandomNumbers().state()
        trained = [TrainedWeights(owner.optimizer) for owner in self._owners.values()]
        outer, self._shared.aside = self._shared.aside, True
        try:
            yield
        finally:
            self._shared.aside = outer
            RandomNumbers().restore(drawn)
            for weights in trained:
                weights.restore()

    def resume(self) -> bool:
        if self._folder is None:
            raise SetupError("engine.resume() needs a place to go on from: Engine(checkpoint=…)")
        self._must_be_fresh()
        found = self._folder.load(self._parts.assemble)
        if found is None:
            return False
        warn_of_versions(self._shared.journal.here(), found.versions)
        for change in changes(found.facts.get("machine", {}), self._machine()):
            warn_at(self._shared.journal.site, f"{change}; perhaps not bit for bit")
        self.load(found.state)
        return True

    def load(self, state: StateTree) -> None:
        self._must_be_fresh()
        if is_imported(state):
            self._load_imported(state)
            return
        self._run.check(state)
        self._run.restore(state)
        self._shared.journal.here()
        self._shared.journal.write(ev.Restore, accounts=self._accounts())
        self._fast_forward.expect(state)
        self._rounds = self._steps_saved()
        self._saved = self._place()

    def _load_imported(self, state: StateTree) -> None:
        """Of another tool: it tells nothing of loops, so they begin at their first batch."""
        site = self._shared.journal.here()
        missing = restore_imported(self._run.owners, state)
        self._shared.journal.write(ev.Restore, accounts=self._accounts())
        if missing and self._shared.ranks.first:
            names = " and ".join(missing)
            warn_at(site, f"the imported checkpoint holds nothing of {names}, which starts anew")

    def probe(self, owner: Owner, once: Callable[[], object]) -> Probe:
        if self._itinerary.active or self._fast_forward.pending:
            raise EngineError("a probe runs before the first loop or between loops, not in one")
        return probe(owner, self._run, once)

    def state(self) -> StateTree:
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
        return self._run.state()

    # What the engine tells

    @contextmanager
    def reading(self, loop: EngineLoop) -> Iterator[None]:
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
            if not self._shared.faulted and not self._left:
                if self._explicit:
                    self._shared.ranks.meet()
                self._settle_silently()
                if self._preempted:
                    leave_soon()
            raise
        except BaseException:
            itinerary.end(whole=False, fault=True)
            raise
        finally:
            loop.stream.feed.release()
            # However the loop is left: what it leaves behind is on disk.
            if self._folder is not None:
                self._folder.settle()
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
            self._left = True
            leave_process()
        # What the other ranks have not heard of yet waits for the next boundary.
        self._shared.asked = self._explicit or self._preempted

    def preempt(self) -> bool:
        """A signal came: ends at once, if nothing would be lost, else at the next boundary."""
        self._preempted = self._shared.asked = True
        self._shared.ranks.want(stop=True)
        if self._shared.aside and self._keeps_here() and not self._is_new():
            self._wait_silently()
            self._left = True
            return True
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

    def _pass_save(self) -> None:
        """A place between loops at which the program saves: a resumed one may have come to it."""
        if not self._itinerary.active:
            self._itinerary.saves += 1
        if self._fast_forward.meets_save():
            self._saved = self._place()

    def _keeps_here(self) -> bool:
        """Whether another process could go on from between two windows, here, without the other
        ranks: they may never come to this place."""
        if self._folder is None or self._shared.ranks.rank is not None:
            return False
        loop = self._itinerary.loop
        if not self._itinerary.active or loop is None:
            return True
        return loop.kind == "windows" and loop.stream.between

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
        failure = None
        try:
            if explicit or periodic or (stop and self._is_new()):
                failure = self._save(behind=not explicit and not stop)
            if stop:
                self._folder.wait()
        finally:
            self._busy = False
        if failure is not None and not stop:
            raise failure
        if failure is not None:
            warn_at(self._shared.journal.site, str(failure))  # it ends as it was told to
        return stop

    def _settle_silently(self) -> None:
        """Where a generator is closed, nothing that is raised reaches anybody."""
        try:
            self._settle()
        except WriteError as error:
            warn_at(self._shared.journal.site, str(error))

    def _wait_silently(self) -> None:
        """In a signal's handler, which ends the process all the same."""
        assert self._folder is not None
        try:
            self._folder.wait()
        except WriteError as error:
            warn_at(self._shared.journal.site, str(error))

    def _is_new(self) -> bool:
        """Asked of one process: a rank that has run out of data stays where it is, others do not,
        and all must save or none."""
        if self._fast_forward.pending:
            return False
        return self._shared.ranks.rank is not None or self._place() != self._saved

    def _save(self, *, behind: bool) -> WriteError | None:
        """What became of the save before, if it failed."""
        assert self._folder is not None
        journal = self._shared.journal
        journal.here()
        state = self.state()
        failure = self._folder.save(self._parts.own(state), self._facts(state), behind=behind)
        self._saved = self._place()
        pending = self._shared.open is not None
        owners = tuple(self._run.owners)
        journal.write(ev.Save, accounts=self._accounts(), optimizers=owners, gradients=pending)
        return failure

    def _facts(self, state: StateTree) -> StateTree:
        """What a person asks of a checkpoint."""
        facts: StateTree = {
            "steps": {name: owner.steps for name, owner in self._run.owners.items()}
        }
        facts |= {"machine": self._machine()}
        place, window = state["place"]["loop"], state["window"]
        if place is not None:
            facts |= {"loop": state["place"]["loops"], "epoch": place["epoch"] + 1}
            facts |= {"batch": place["batch"]}
            facts |= {"position": state["loaders"][place["loader"]].get("digest")}
        if window is not None:
            facts |= {"window": f"open, {window['read']} of {window['size']} micro-batches read"}
        return facts

    def _machine(self) -> MachineFacts:
        compiled = any(is_compiled(owner.model) for owner in self._owners.values())
        return machine(gpu=on_gpu(self._owners.values())) | {"compiled": compiled}

    def _accounts(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(a for owner in self._run.owners.values() for a in owner.accounts)
        )

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
