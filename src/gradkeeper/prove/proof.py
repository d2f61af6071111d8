"""Runs the command to the end, runs it again with kills, and compares."""

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from gradkeeper.prove import KILLS, SEED, ProveError
from gradkeeper.prove.diagnosis import (
    Comparison,
    FirstDeviation,
    began_anew,
    compare,
    parting,
    seeded,
)
from gradkeeper.prove.process import Ended, KillPlan, KillPoint, ProcessRecord, has_python, start
from gradkeeper.prove.working_copy import (
    CopySource,
    WorkingCopy,
    build,
    source_of,
    written,
    written_into,
)


@dataclass(frozen=True)
class Kill:
    """Where a process was killed, and from which step the next one went on (None: not known)."""

    at: KillPoint
    resumed: int | None
    anew: bool = False  # the next one did not go on at all


@dataclass(frozen=True)
class Proof:
    command: tuple[str, ...]
    seed: int
    asked: int
    steps: int
    backwards: int
    kills: tuple[Kill, ...]
    failure: str | None = None
    comparison: Comparison | None = None  # made only if the digests of the weights differ
    parting: FirstDeviation | None = None
    left: tuple[str, ...] = ()  # files that it had written by the last kill, the newest first

    @property
    def exact(self) -> bool:
        return self.resumed and self.equal

    @property
    def equal(self) -> bool:
        """Whether both runs ended with the same weights. Those that start anew each time do too."""
        same = self.comparison is None or not self.comparison.differences
        return self.failure is None and same

    @property
    def resumed(self) -> bool:
        """Whether any restart went on from where another process had come to."""
        return any(not kill.anew for kill in self.kills)


def after(point: KillPoint) -> str:
    """A point in words."""
    step, micro = point
    if not micro:
        return f"after step {step}"
    return f"in step {step + 1}, after micro-step {micro}"


Say = Callable[[str], None]
PATIENCE, LEAST = 20, 120
"""A restart that hangs takes for ever; one on a machine that has become busy takes its time."""


def prove(
    command: Sequence[str],
    *,
    kills: int = KILLS,
    seed: int = SEED,
    share: Sequence[str] = (),
    keep: Path | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
    say: Say = lambda line: None,
) -> Proof:
    """The verdict; ProveError where there can be none.

    No start may take longer than `timeout` seconds. Left out, the first one may take as long as it
    likes, and the others many times as long as that.
    """
    with _session(keep) as session:
        source = source_of(command, (cwd or Path.cwd()).resolve(), share, session)
        job = _Attempts(tuple(command), source, session, say, timeout)
        say(f"to its end first; then up to {kills} times killed and started again")
        whole, left = job.run_whole("reference")
        record = checked(whole)
        if timeout is None:
            job = replace(job, timeout=PATIENCE * whole.seconds + LEAST)
        count = f"{len(record.steps)} steps, {len(record.backwards)} backward calls"
        # No verdict: it may save elsewhere, or clear up when it is done. But nobody need wait.
        say(f"uninterrupted: {count}" + ("" if left else "; it left no file to go on from"))
        points = _points(record, kills, seed)
        killed = job.run_killed(record, points)
        return job.verdict(whole, killed, seed=seed, asked=kills)


@contextmanager
def _session(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="gradkeeper-") as folder:
            yield Path(folder).resolve()
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise ProveError(f"--keep {keep}: it must be a new or an empty folder")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.resolve()


# The uninterrupted run


def checked(ended: Ended) -> ProcessRecord:
    """The record of a run that ended well; else why there is nothing to compare."""
    blind = ended.folder / "blind"
    if ended.late is not None:
        raise ProveError(
            f"the script has not ended after {ended.late:g} seconds: give it more with --timeout, "
            f"or less to do{ended.last_words()}"
        )
    if ended.code != 0:
        raise ProveError(f"the script fails by itself, {how_it_ended(ended)}:{ended.last_words()}")
    if not has_python(ended.folder):
        raise ProveError(
            "no Python was seen: name a command that runs a Python script, and not with -I or -E, "
            "which keep it from being watched"
        )
    if blind.exists():
        raise ProveError(
            f"the script's Python cannot be watched ({blind.read_text()}): "
            "install gradkeeper there too, from the clone or wheel that it came from here"
        )
    record = ended.record
    if record is None or not record.steps:
        raise ProveError(
            "no optimizer took a step: does the script train, or did it go on from a checkpoint in "
            "this folder that was finished? Then move that away first"
        )
    if record.final is None:
        raise ProveError("the script's end was not seen: it must not leave by os._exit")
    return record


def how_it_ended(ended: Ended) -> str:
    return f"with exit code {ended.code}" if ended.code >= 0 else f"by signal {-ended.code}"


# The run with kills


@dataclass
class KilledRun:
    starts: list[Ended] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    kills: list[KillPoint] = field(default_factory=list)
    left: tuple[str, ...] = ()  # files in the copy at the last kill that it had written itself

    @property
    def records(self) -> list[ProcessRecord]:
        return [start.record for start in self.starts if start.record is not None]

    def base(self, record: ProcessRecord) -> int | None:
        """The step that a process went on from; None if its weights are those of none."""
        return self.known.get(record.began or "")

    def learn(self, record: ProcessRecord, otherwise: int) -> None:
        base = self.base(record)
        base = otherwise if base is None else base
        for number, step in enumerate(record.steps, 1):
            self.known.setdefault(step.weights, base + number)


def steps_by_weights(whole: ProcessRecord) -> dict[str, int]:
    """Where a warm-up from 0 leaves weights as they were, the earliest step."""
    known = {whole.began or "": 0}
    for number, step in enumerate(whole.steps, 1):
        known.setdefault(step.weights, number)
    return known


def refuse_what_is_not_fresh(killed: KilledRun) -> None:
    """Asked of the first start only."""
    first = killed.starts[0]
    if len(killed.starts) > 1:
        return
    if first.record is None or killed.base(first.record):
        raise ProveError(
            "the second run did not start from the beginning: it found what the first one saved. "
            "Let the script save into its working folder, or name the folder in its arguments: "
            "each run gets its own of these, and of nothing else"
        )
    if first.code != 0 and not first.record.killed:
        checked(first)


def resumptions(killed: KilledRun, whole: ProcessRecord) -> Iterator[Kill]:
    for point, following in zip(killed.kills, killed.starts[1:], strict=False):
        record = following.record
        if record is None:
            yield Kill(point, None)
        else:
            yield Kill(point, killed.base(record), began_anew(record, whole))


def failure(killed: KilledRun) -> str | None:
    last = killed.starts[-1]
    number = len(killed.kills)
    again = f"started again after kill {number}, it"
    if last.late is not None:
        return f"{again} has not ended after {last.late:g} seconds:{last.last_words()}"
    if last.code != 0:
        return f"{again} fails {how_it_ended(last)}:{last.last_words()}"
    if last.record is None or last.record.final is None:
        return f"{again} ends at once and builds no optimizer"
    return None


def first_parting(killed: KilledRun, whole: ProcessRecord) -> FirstDeviation | None:
    first, *restarts = killed.records
    steady = seeded(first, whole)
    for number, record in enumerate(restarts, 1):
        found = parting(number, record, whole, steady)
        if found is not None:
            return found
    return None


# The runs


@dataclass(frozen=True)
class _Attempts:
    command: tuple[str, ...]
    source: CopySource
    session: Path
    say: Say
    timeout: float | None

    def run_whole(self, name: str, trainer: str | None = None) -> tuple[Ended, tuple[str, ...]]:
        """How it ended, and the files that it left."""
        working_copy = self._working_copy(name)
        ended = self._start(working_copy, self.session / name / "start", KillPlan(trainer))
        left = self._left(working_copy, ended)
        self._clear(ended)
        return ended, left

    def run_killed(self, whole: ProcessRecord, points: Sequence[KillPoint]) -> KilledRun:
        working_copy = self._working_copy("killed")
        killed = KilledRun(known=steps_by_weights(whole))
        otherwise = 0
        try:
            for kill in [*points, None]:
                folder = self.session / "killed" / f"start-{len(killed.starts) + 1}"
                plan = KillPlan(whole.trainer, kill, killed.known, otherwise)
                ended = self._start(working_copy, folder, plan)
                killed.starts.append(ended)
                refuse_what_is_not_fresh(killed)
                if ended.record is None or not ended.record.killed or kill is None:
                    break
                self.say(f"kill {len(killed.kills) + 1}: {after(kill)}")
                killed.kills.append(kill)
                killed.left = self._left(working_copy, ended)
                killed.learn(ended.record, otherwise)
                otherwise = kill[0]
        finally:
            for ended in killed.starts:
                self._clear(ended)
        return killed

    def verdict(self, whole: Ended, killed: KilledRun, *, seed: int, asked: int) -> Proof:
        record, last = checked(whole), killed.starts[-1]
        proof = Proof(
            command=self.command,
            seed=seed,
            asked=asked,
            steps=len(record.steps),
            backwards=len(record.backwards),
            kills=tuple(resumptions(killed, record)),
            failure=failure(killed),
            left=killed.left,
        )
        if proof.failure is not None or last.record is None or last.record.final == record.final:
            return proof
        self._refuse_chance(record)
        found = compare(whole.folder / "final", last.folder / "final")
        return replace(proof, comparison=found, parting=first_parting(killed, record))

    def _refuse_chance(self, record: ProcessRecord) -> None:
        """Asked only now: if the killed run ends alike, no second opinion is needed."""
        self.say("they differ: running it to the end once more, to know that it repeats itself")
        ended, _ = self.run_whole("again", record.trainer)
        again = checked(ended)
        if again.final != record.final:
            raise ProveError(
                "the script is not deterministic by itself: two uninterrupted runs end with "
                "different weights. Seed it (torch.manual_seed, random.seed, numpy.random.seed, "
                "the loader's generator), or use torch.use_deterministic_algorithms(True)"
            )

    def _start(self, working_copy: WorkingCopy, folder: Path, plan: KillPlan) -> Ended:
        return start(self.command, working_copy, folder, plan, timeout=self.timeout)

    def _working_copy(self, name: str) -> WorkingCopy:
        return build(self.source, self.session / name / "work")

    def _clear(self, ended: Ended) -> None:
        """Removes what this start wrote into the folder itself, by an absolute path."""
        files = self._written_outside(ended)
        old = sorted(str(path) for path, existed in files.items() if existed and path.is_file())
        for path, existed in sorted(files.items(), reverse=True):
            if not existed:
                _remove(path)
        if old:
            raise ProveError(
                f"the script writes to {old[0]} by its absolute path, and that was there before: "
                "its runs would find each other's. Move it away, or let the script use a path "
                "relative to its working folder"
            )

    def _left(self, working_copy: WorkingCopy, ended: Ended) -> tuple[str, ...]:
        """Files that it wrote and that are still there, those in its copy the newest first."""
        outside = [str(path) for path in self._written_outside(ended) if path.is_file()]
        return (*written_into(working_copy), *outside)

    def _written_outside(self, ended: Ended) -> dict[Path, bool]:
        found = written(ended.folder).items()
        # With --keep the copies may be in the folder too: what is written there is meant to stay.
        return {path: old for path, old in found if not path.is_relative_to(self.session)}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _points(whole: ProcessRecord, kills: int, seed: int) -> list[KillPoint]:
    """Random, and one after the other, so that each restart has something left to do."""
    points = whole.points()
    count = min(kills, len(points))
    return sorted(random.Random(seed).sample(points, count))
