"""What ranks tell each other: a status by everyone at once, notes for those who wait, and what
follows when they fared differently.
"""

import json
import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from enum import IntEnum
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from gradkeeper.engine.errors import RankError
from gradkeeper.engine.journal import Journal
from gradkeeper.torch_private import default_store

# Notes that a rank leaves for the others in the store they met at.
#
# A collective that waits for a rank in vain says only that it waited. Whoever fails or leaves
# writes down why, and whoever waited reads it.


_LOST = re.compile(r"gloo|nccl|connection|timed? ?out|process ?group|broken pipe", re.IGNORECASE)


LONGEST_ANSWER = 10.0
"""Seconds that the store may take."""


class FailureNotes:
    def __init__(self) -> None:
        store = default_store()
        self.timeout: timedelta = store.timeout
        self._store: Any = dist.distributed_c10d.PrefixStore("gradkeeper", store)
        self._rank = dist.get_rank()
        self._size = dist.get_world_size()
        self._told_in: int | None = None
        self._gone = False
        """The store did not answer: nobody asks again."""

    def tell(self, what: str, window: int) -> None:
        """The first note of a window stays: what comes after follows from it."""
        if self._told_in == window:
            return
        self._told_in = window
        self._ask(lambda: self._store.set(str(self._rank), what))

    def take_back(self, window: int) -> None:
        """All ranks met in this window: what was told in an earlier one, they have read."""
        if self._told_in is not None and self._told_in < window:
            self._told_in = None
            self._store.delete_key(str(self._rank))

    def of(self, rank: int) -> str | None:
        there = self._ask(lambda: self._store.check([str(rank)]))
        told: bytes | None = self._ask(lambda: self._store.get(str(rank))) if there else None
        return None if told is None else told.decode()

    def _ask(self, act: Callable[[], Any]) -> Any:
        """None where the store went with rank 0. It answers at once or, from a host that was cut
        off, never: torch waits without an end there (2.13)."""
        if self._gone:
            return None
        answer: list[Any] = []

        def ask() -> None:
            with suppress(RuntimeError):
                answer.append(act())

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(LONGEST_ANSWER)
        self._gone = asking.is_alive()
        return answer[0] if answer else None

    def why(self, error: BaseException) -> str:
        """A message for a collective that failed."""
        others = (rank for rank in range(self._size) if rank != self._rank)
        notes = [f"rank {rank} {note}" for rank in others if (note := self.of(rank))]
        known = "; ".join(notes) or "another rank ended, or did not come within the timeout"
        return f"the ranks lost each other: {known}. Rank {self._rank} waited and got: {error}"


def is_lost(error: BaseException) -> bool:
    """Whether a collective failed: torch raises a plain RuntimeError with the backend's words."""
    return isinstance(error, RuntimeError) and _LOST.search(str(error)) is not None


# What a rank says when the roll is called: where it is, how it fares, and what it counted.


class Meeting(IntEnum):
    """Where in the loop a rank is when it speaks."""

    UNIT = 1
    """The run's first backward: which weight shall be the unit of all others?"""
    EPOCH = 2
    """Between windows: who has more micro-batches?"""
    READ = 3
    """Before the next micro-batch, where ranks read in step."""
    FORWARD = 4
    """Before a forward in which all ranks take part."""
    CLOSE = 5
    """The window's end."""
    WIDE = 6
    """A norm overflowed, and is measured again."""
    BREAK = 7
    """It reads no more of this window, though there would be more."""
    SAVE = 8
    """Where somebody called save(), outside of all loops."""


class Health(IntEnum):
    FINE = 0
    TORN = 1
    """A backward failed half-way, and the exception was caught inside the block."""
    INTERRUPTED = 2
    """It learnt in mid-window that another rank had failed."""
    FAILED = 3
    """An exception left the block before the ranks had exchanged anything."""
    FAILED_LATE = 4
    """The same after they had."""


class Status(NamedTuple):
    """Numbers only: they fit into one tensor. Zero is what nobody needs to know."""

    place: float
    state: float = Health.FINE
    window: float = 0
    """How many windows it has opened."""
    handed: float = 0
    """Micro-batches of this window that it was handed."""
    more: float = 0
    """Whether its loader has another one."""
    remaining: float = 0
    """How many more; -1 where the loader has no length."""
    weight: float = 0
    """The sum of its weights; at UNIT, its first one."""
    counted: float = 0
    credits: float = 0
    loss: float = 0
    norm: float = 0
    """Of its gradients, or of its part of them."""
    unsynced: float = 0
    """It holds gradients that the others have not seen."""
    unreached: float = 0
    """Parameters that none of its backwards reached, where that matters."""
    stop: float = 0
    """It wants all ranks to stop."""
    save: float = 0
    """It wants all ranks to save."""
    line: float = 0


# The roll call: each rank tells its status, and hears those of all others.
#
# One small all-gather between the hosts, in a process group of its own: so it never meets a
# collective of the model's, whatever a rank does wrong, and no device is waited for.


def _nothing() -> None:
    return


def group_of_its_own(timeout: timedelta) -> Callable[[], Any]:
    """torch.distributed holds it, and lets it go in destroy_process_group(): its threads must not
    live on into the end of the interpreter."""
    made: Any = weakref.ref(dist.new_group(backend="gloo", timeout=timeout))

    def group() -> Any:
        found = made()
        if found is None:
            raise RuntimeError("destroy_process_group() was called while the engine was in use")
        return found

    return group


class RollCall:
    """Of a save or a stop: whoever wants one says so (a signal handler may), and `saving` and
    `stopping` turn true on all ranks in the same call."""

    def __init__(self, notes_left: FailureNotes, journal: Journal) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.notes_left = notes_left
        self.wants_save = self.wants_stop = False
        self.saving = self.stopping = False
        self.heard: Callable[[], None] = _nothing
        """Called when some rank has asked."""
        self.agreed = 0.0
        """The weight that all ranks' weights are relative to; 0 until agreed on, once per run."""
        self._asked = False
        self._journal = journal
        self._window = 0
        self._broken: str | None = None
        self.group = group_of_its_own(notes_left.timeout)
        # Kept, not made for each call: gloo's thread may let go of a tensor after this one, and at
        # the end of a process it would wait for an interpreter that is gone, and abort.
        self._said = torch.zeros(len(Status._fields), dtype=torch.float64)
        self._heard = torch.zeros(self.size, len(Status._fields), dtype=torch.float64)
        self._of_each = list(self._heard.unbind())
        self._last: Any = None

    def open_window(self) -> None:
        self.must_be_whole()
        self._asked = False
        self._window += 1

    def call(self, place: Meeting, **facts: float) -> list[Status]:
        """The status of each rank, in their order. A call in which a rank asks for the unit serves
        that only: those who came for something else tell theirs again."""
        self.must_be_whole()
        line = self._journal.site.line
        while True:
            wants = {"stop": float(self.wants_stop), "save": float(self.wants_save)}
            status = Status(place=place, window=self._window, line=line, **wants, **facts)
            statuses = self._gather(status)
            self._hear_of_wants(statuses)
            asked = any(status.place == Meeting.UNIT for status in statuses)
            if asked:
                self._hear_of_unit(statuses)
            if not asked or place == Meeting.UNIT:
                return statuses

    def _hear_of_wants(self, statuses: list[Status]) -> None:
        self.stopping = self.stopping or any(status.stop for status in statuses)
        self.saving = self.saving or any(status.save for status in statuses)
        if self.saving or self.stopping:
            self.heard()

    def _gather(self, status: Status) -> list[Status]:
        self._said.copy_(torch.tensor(status, dtype=torch.float64))
        try:
            dist.all_gather(self._of_each, self._said, group=self.group())
        except RuntimeError as error:
            raise self.lost(error) from error
        self.notes_left.take_back(self._window)
        return [Status._make(status) for status in self._heard.tolist()]

    def gather_flags(self, mine: list[bool]) -> list[list[bool]]:
        """As many of each rank."""
        said = torch.tensor(mine, dtype=torch.uint8)
        heard = [torch.empty_like(said) for _ in range(self.size)]
        self._last = (said, heard)
        try:
            dist.all_gather(heard, said, group=self.group())
        except RuntimeError as error:
            raise self.lost(error) from error
        return [flags.bool().tolist() for flags in heard]

    # The unit of weights

    @property
    def unit(self) -> float:
        return self.agreed or 1.0

    def ask_for_unit(self, weight: float) -> None:
        """Once per run; in the next window again where all ranks' first losses weighed nothing."""
        if self.needs_unit:
            self.call(Meeting.UNIT, weight=weight)

    @property
    def needs_unit(self) -> bool:
        return not (self.agreed or self._asked)

    def _hear_of_unit(self, statuses: list[Status]) -> None:
        self._asked = True
        weights = (status.weight for status in statuses if status.place == Meeting.UNIT)
        self.agreed = next((weight for weight in weights if weight), 0.0)

    # When it fails

    def tell(self, what: str) -> None:
        """For the others to read, if they wait for this rank in vain or ask why it failed."""
        site = self._journal.site
        self.notes_left.tell(f"{what} ({site.file}:{site.line})", self._window)

    def lost(self, error: BaseException) -> RankError:
        """A collective failed: no further one can be trusted to meet its like."""
        self.stop_for(self.notes_left.why(error))
        return RankError(self._broken)

    def stop_for(self, reason: str) -> None:
        self._broken = reason

    def raise_if_lost(self, error: BaseException) -> None:
        if self._broken is None and is_lost(error):
            raise self.lost(error) from error

    @property
    def broken(self) -> bool:
        return self._broken is not None

    def must_be_whole(self) -> None:
        if self._broken is not None:
            raise RankError(f"this engine stopped earlier: {self._broken}")


# What follows when ranks fared differently in a window, and how it is told.


def check_same_window(statuses: list[Status]) -> None:
    windows = {int(status.window) for status in statuses}
    if len(windows) > 1:
        where = ", ".join(
            f"rank {rank}: {int(status.window)}" for rank, status in enumerate(statuses)
        )
        raise RankError(
            f"the ranks are in different windows ({where}): each rank must open each window, with "
            "weight=0 where it has nothing to add"
        )


def check_same_items(statuses: list[Status], alike: Sequence[Sequence[int]]) -> None:
    """Where ranks share a layer, they read the same micro-batches."""
    for group in alike:
        first = statuses[group[0]]
        for rank in group[1:]:
            if (statuses[rank].weight, statuses[rank].counted) != (first.weight, first.counted):
                raise RankError(
                    f"rank {group[0]} and rank {rank} share layers (tensor parallelism), and "
                    f"weighed their losses by {first.weight:g} and {statuses[rank].weight:g}: both "
                    "must be handed the same micro-batches. Give a sampler the number of this "
                    "rank's group, not its own"
                )


def torn_apart(parameter: str, reached: list[bool]) -> str:
    """Where gradients lie one behind the other, and are added up by their place, by a torch that
    cannot have the others take part with zeros."""
    return (
        f"rank {reached.index(True)} reached {parameter} in this window and rank "
        f"{reached.index(False)} did not, so what they exchanged does not fit together: nothing "
        "was spent. A newer torch adds up whatever each rank reached"
    )


def check_all_run_forward(statuses: list[Status]) -> None:
    """Where a forward is collective, ranks run the same number of them."""
    running = [rank for rank, status in enumerate(statuses) if status.place == Meeting.FORWARD]
    others = [rank for rank, status in enumerate(statuses) if status.place != Meeting.FORWARD]
    if running and others:
        raise RankError(
            f"rank {running[0]} runs a forward and rank {others[0]} has gone on without it: "
            "sharded parameters are gathered by all ranks together, so all must run the same "
            "forwards and backwards, with weight=0 where there is nothing to add"
        )


def check_all_save(statuses: list[Status]) -> None:
    elsewhere = [rank for rank, status in enumerate(statuses) if status.place != Meeting.SAVE]
    if elsewhere:
        raise RankError(
            f"engine.save() was called between loops, and not on rank {elsewhere[0]}: a checkpoint "
            "is written by all ranks, so all must call it there"
        )


def failure(statuses: list[Status], notes_left: FailureNotes) -> str | None:
    """Why no rank may spend this window."""
    for rank, status in enumerate(statuses):
        if status.state in (Health.FAILED, Health.FAILED_LATE):
            return f"rank {rank} {notes_left.of(rank) or 'raised an exception'}"
    for rank, status in enumerate(statuses):
        if status.state == Health.TORN:
            return f"a backward failed half-way on rank {rank}"
    return None


def too_late(statuses: list[Status]) -> bool:
    """Gradients had been exchanged when a rank failed: all raise."""
    return any(status.state == Health.FAILED_LATE for status in statuses)


def digest(statuses: list[Status]) -> tuple[str, ...]:
    """What each rank did, for the ledger; the line where it did otherwise than most."""
    did = [_did(status) for status in statuses]
    usual = Counter(did).most_common(1)[0][0]
    lines = (f" (line {int(status.line)})" if status.line else "" for status in statuses)
    return tuple(act if act == usual else act + line for act, line in zip(did, lines, strict=True))


def _did(status: Status) -> str:
    match status.state:
        case Health.FAILED | Health.FAILED_LATE:
            return "raised an exception in its window"
        case Health.TORN:
            return "failed half-way in a backward"
    if not status.handed:
        return "closed its window"
    return f"filled its window with {int(status.handed)} micro-batches"


# The ranks as those who write one checkpoint together: a channel of their own for plain values.
#
# A process group of its own, because a save that is written behind speaks while the model trains.


class RankPeers:
    def __init__(self, roll: RollCall) -> None:
        self.rank = roll.rank
        self.size = roll.size
        self._roll = roll
        self._group = group_of_its_own(roll.notes_left.timeout)
        self._last: Any = None
        """The last call's tensors: not let go of by gloo's thread, as those of the roll."""

    def gather(self, value: Any) -> list[Any]:
        mine = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        try:
            return [json.loads(bytes(text.tolist())) for text in self._gathered(mine)]
        except RuntimeError as error:
            raise self._roll.lost(error) from error

    def _gathered(self, mine: torch.Tensor) -> list[torch.Tensor]:
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        size = torch.tensor([len(mine)])
        dist.all_gather(sizes, size, group=self._group())
        counts = [int(size) for size in sizes]
        padded = torch.zeros(max(counts), dtype=torch.uint8)
        padded[: len(mine)] = mine
        heard = [torch.empty_like(padded) for _ in counts]
        self._last = (sizes, size, padded, heard)
        dist.all_gather(heard, padded, group=self._group())
        return [text[:count] for text, count in zip(heard, counts, strict=True)]
