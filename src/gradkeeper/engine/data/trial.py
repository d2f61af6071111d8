"""Whether a loader goes on exactly: read whole in one process, and from each place in another.

Between batches random numbers are drawn, as dropout does. Processes are forks, which are killed
when they have read, with their workers.
"""

import os
import pickle
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gradkeeper import rng
from gradkeeper.checkpoint.codec import Encoded, decode, encode
from gradkeeper.checkpoint.errors import UnkeepableError
from gradkeeper.engine.data.choose_feed import feed_of
from gradkeeper.engine.data.fingerprint import content_of
from gradkeeper.engine.data.samplers import next_epoch
from gradkeeper.engine.errors import EngineError

Build = Callable[[], Iterable[Any]]
ELSEWHERE = 20011
"""Seeds the generators of a new process: as if it had come there in another way."""
LONGEST = 300
END = "the end of the epoch"


@dataclass(frozen=True)
class Seen:
    """One batch, or the end of an epoch; and what the training drew after it."""

    epoch: int
    batch: int
    content: str
    shown: str
    drawn: str


@dataclass(frozen=True)
class Place:
    epoch: int
    batch: int
    ended: bool
    seen: int
    """What had been seen by then."""
    state: Encoded
    random: Encoded

    def __str__(self) -> str:
        if self.ended:
            return f"at the end of epoch {self.epoch + 1}"
        return f"after {_batches(self.batch)} of epoch {self.epoch + 1}"


@dataclass
class TrialRecord:
    """What a process tells."""

    seen: list[Seen] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    failure: str = ""


def fault_of(build: Build, *, epochs: int, batches: int | None) -> str:
    """The first place from which it does not go on exactly, in words; empty if there is none.

    `batches`: of one epoch only so many are read.
    """
    whole = _in_a_process(lambda record: Trial(build, epochs, batches, record).read_whole())
    if whole.failure:
        return f"the loader cannot be read: {whole.failure}"
    if all(seen.content == END for seen in whole.seen):
        return "the loader hands out no batch: there is nothing to go on with"
    for place in whole.places:
        fault = _fault_at(place, whole.seen[place.seen :], build, epochs, batches)
        if fault:
            return fault
    return ""


def _fault_at(
    place: Place, expected: list[Seen], build: Build, epochs: int, batches: int | None
) -> str:
    resumed = _in_a_process(lambda record: Trial(build, epochs, batches, record).read_on(place))
    where = f"resumed {place} in a new process, the loader "
    for wanted, came in zip(expected, resumed.seen, strict=False):
        if (wanted.content, wanted.epoch, wanted.batch) != (came.content, came.epoch, came.batch):
            return (
                f"{where}gives something else as {_name(wanted)}:\n"
                f"  expected: {wanted.shown}\n"
                f"  came:     {came.shown}"
            )
        if wanted.drawn != came.drawn:
            return (
                f"{where}leaves the program's random generators elsewhere after {_name(wanted)}: "
                "what is drawn between its batches is not what was drawn there before"
            )
    if resumed.failure:
        return f"{where}fails: {resumed.failure}"
    return ""


def _name(seen: Seen) -> str:
    if seen.content == END:
        return f"{END} {seen.epoch + 1}, after {_batches(seen.batch)}"
    return f"batch {seen.batch} of epoch {seen.epoch + 1}"


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"


# What one process does.


class Trial:
    def __init__(self, build: Build, epochs: int, batches: int | None, record: TrialRecord) -> None:
        self._loader = build()
        self._feed = feed_of(self._loader)
        self._epochs = epochs
        self._most = batches
        self._record = record
        self._epoch = 0
        self._batch = 0

    def read_whole(self) -> None:
        self._feed.check()
        self._read(self._feed.begin(0), keep=True)

    def read_on(self, place: Place) -> None:
        _seed(ELSEWHERE)
        _draw()
        self._epoch, self._batch = place.epoch, place.batch
        rest = self._feed.resume(decode(place.state.tree, place.state.tensors))
        rng.restore(decode(place.random.tree, place.random.tensors))
        if place.ended:
            self._next_epoch()
        else:
            self._read(rest, keep=False)

    def _read(self, coming: Iterator[Any], *, keep: bool) -> None:
        while self._most is None or self._batch < self._most:
            if keep:
                self._keep(ended=False)
            try:
                batch = next(coming)
            except StopIteration:
                self._see(END, END)
                if keep:
                    self._keep(ended=True)
                self._next_epoch(keep=keep)
                return
            self._batch += 1
            self._see(content_of(batch, whole=True), _shown(batch))

    def _next_epoch(self, *, keep: bool = False) -> None:
        if self._epoch + 1 < self._epochs:
            self._epoch, self._batch = self._epoch + 1, 0
            next_epoch(self._loader)
            self._read(self._feed.begin(self._epoch), keep=keep)

    def _see(self, content: str, shown: str) -> None:
        self._record.seen.append(Seen(self._epoch, self._batch, content, shown, _draw()))

    def _keep(self, *, ended: bool) -> None:
        place = Place(
            self._epoch,
            self._batch,
            ended,
            len(self._record.seen),
            _copied(encode(self._feed.state(), root="the loader's state")),
            _copied(encode(rng.state())),
        )
        self._record.places.append(place)


def _copied(encoded: Encoded) -> Encoded:
    return Encoded(encoded.tree, {name: tensor.clone() for name, tensor in encoded.tensors.items()})


def _shown(batch: Any) -> str:
    text = " ".join(repr(batch).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _seed(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def _draw() -> str:
    drawn = [random.random(), torch.rand(()).item()]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        drawn.append(float(numpy.random.rand()))
    return repr(drawn)


# A process for it.


def _in_a_process(tell: Callable[[TrialRecord], None]) -> TrialRecord:
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "record"
        with warnings.catch_warnings():
            # Python 3.12 warns of every fork of a process with threads, of which torch has some.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _live(tell, told)
        try:
            os.waitpid(child, 0)
        finally:
            # Its workers too.
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        if not told.exists():
            return TrialRecord(failure="the process that read it has died")
        record: TrialRecord = pickle.loads(told.read_bytes())
        return record


def _live(tell: Callable[[TrialRecord], None], told: Path) -> None:
    """It never returns."""
    try:
        os.setpgrp()
        sys.stderr = None
        # As in a worker: the threads of OpenMP do not survive a fork.
        torch.set_num_threads(1)
        record = TrialRecord()
        try:
            tell(record)
        except (EngineError, UnkeepableError) as error:
            record.failure = str(error)
        except Exception as error:
            record.failure = f"{type(error).__name__}: {error}"
        unfinished = told.with_suffix(".part")
        unfinished.write_bytes(pickle.dumps(record))
        unfinished.rename(told)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)
