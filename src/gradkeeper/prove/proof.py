"""Runs the command to the end, runs it again with kills, and compares."""

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradkeeper.prove.diagnosis import Parting, parting, seeded
from gradkeeper.prove.errors import ProveError
from gradkeeper.prove.outputs import written
from gradkeeper.prove.record import Record
from gradkeeper.prove.running import Ended, Plan, Point, has_python, start
from gradkeeper.prove.workplace import Source, Workplace, build, source_of

if TYPE_CHECKING:
    from gradkeeper.prove.weights import Comparison

Say = Callable[[str], None]
KILLS = 5


@dataclass(frozen=True)
class Kill:
    """Where a process was killed, and from which step the next one went on (None: not known)."""

    at: Point
    resumed: int | None


@dataclass(frozen=True)
class Proof:
    command: tuple[str, ...]
    seed: int
    asked: int
    steps: int
    backwards: int
    kills: tuple[Kill, ...]
    failure: str | None = None
    comparison: "Comparison | None" = None  # made only if the digests of the weights differ
    parting: Parting | None = None

    @property
    def exact(self) -> bool:
        same = self.comparison is None or not self.comparison.differences
        return self.failure is None and same

    @property
    def resumed(self) -> bool:
        """Whether any restart went on from a later step than the first."""
        return any(kill.resumed != 0 for kill in self.kills)


@dataclass
class Killed:
    """The run with kills: its starts, one after the other."""

    starts: list[Ended] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    kills: list[Point] = field(default_factory=list)

    @property
    def records(self) -> list[Record]:
        return [one.record for one in self.starts if one.record is not None]

    def base(self, record: Record) -> int | None:
        """The step that a process went on from; None if its weights are those of none."""
        return self.known.get(record.began or "")

    def learn(self, record: Record, otherwise: int) -> None:
        base = self.base(record)
        base = otherwise if base is None else base
        for number, step in enumerate(record.steps, 1):
            self.known.setdefault(step.weights, base + number)


def prove(
    command: Sequence[str],
    *,
    kills: int = KILLS,
    seed: int = 0,
    share: Sequence[str] = (),
    keep: Path | None = None,
    cwd: Path | None = None,
    say: Say = lambda line: None,
) -> Proof:
    """The verdict; ProveError where there can be none."""
    with _session(keep) as session:
        source = source_of(command, (cwd or Path.cwd()).resolve(), share, session)
        job = _Job(tuple(command), source, session, say)
        whole = job.run_whole("reference")
        record = _checked(whole)
        say(f"uninterrupted: {len(record.steps)} steps, {len(record.backwards)} backward calls")
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


@dataclass(frozen=True)
class _Job:
    command: tuple[str, ...]
    source: Source
    session: Path
    say: Say

    def run_whole(self, name: str, trainer: str | None = None) -> Ended:
        workplace = self._workplace(name)
        ended = start(self.command, workplace, self.session / name / "start", Plan(trainer))
        self._clear(ended)
        return ended

    def run_killed(self, whole: Record, points: Sequence[Point]) -> Killed:
        workplace = self._workplace("killed")
        killed = Killed(known=_steps_by_weights(whole))
        otherwise = 0
        try:
            for kill in [*points, None]:
                folder = self.session / "killed" / f"start-{len(killed.starts) + 1}"
                plan = Plan(whole.trainer, kill, killed.known, otherwise)
                ended = start(self.command, workplace, folder, plan)
                killed.starts.append(ended)
                _refuse_what_is_not_fresh(killed)
                if ended.record is None or not ended.record.killed or kill is None:
                    break
                self.say(f"kill {len(killed.kills) + 1}: {after(kill)}")
                killed.kills.append(kill)
                killed.learn(ended.record, otherwise)
                otherwise = kill[0]
        finally:
            for ended in killed.starts:
                self._clear(ended)
        return killed

    def verdict(self, whole: Ended, killed: Killed, *, seed: int, asked: int) -> Proof:
        record, last = _checked(whole), killed.starts[-1]
        proof = Proof(
            command=self.command,
            seed=seed,
            asked=asked,
            steps=len(record.steps),
            backwards=len(record.backwards),
            kills=tuple(_resumptions(killed)),
            failure=_failure(killed),
        )
        if proof.failure is not None or last.record is None or last.record.final == record.final:
            return proof
        self._refuse_chance(record)
        from gradkeeper.prove.weights import compare

        found = compare(whole.folder / "final", last.folder / "final")
        return replace(proof, comparison=found, parting=_first_parting(killed, record))

    def _refuse_chance(self, record: Record) -> None:
        """Asked only now: if the killed run ends alike, no second opinion is needed."""
        self.say("they differ: running it to the end once more, to know that it repeats itself")
        again = _checked(self.run_whole("again", record.trainer))
        if again.final != record.final:
            raise ProveError(
                "the script is not deterministic by itself: two uninterrupted runs end with "
                "different weights. Seed it (torch.manual_seed, random.seed, numpy.random.seed, "
                "the loader's generator), or use torch.use_deterministic_algorithms(True)"
            )

    def _workplace(self, name: str) -> Workplace:
        return build(self.source, self.session / name / "work")

    def _clear(self, ended: Ended) -> None:
        """Removes what this start wrote into the folder itself, by an absolute path."""
        files = written(ended.folder)
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


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _checked(ended: Ended) -> Record:
    """The record of a run that ended well; else why there is nothing to compare."""
    blind = ended.folder / "blind"
    if ended.code != 0:
        raise ProveError(f"the script fails by itself, {_exit(ended.code)}:{ended.last_words()}")
    if not has_python(ended.folder):
        raise ProveError(
            "no Python was seen: name a command that runs a Python script, and not with -I or -E, "
            "which keep it from being watched"
        )
    if blind.exists():
        raise ProveError(
            f"the script's Python cannot be watched ({blind.read_text()}): "
            "install gradkeeper[torch] where torch is"
        )
    record = ended.record
    if record is None or not record.steps:
        raise ProveError(
            "no optimizer took a step: does the script train, or did it find its own finished "
            "checkpoint in the folder?"
        )
    if record.final is None:
        raise ProveError("the script's end was not seen: it must not leave by os._exit")
    return record


def _exit(code: int) -> str:
    return f"with exit code {code}" if code >= 0 else f"by signal {-code}"


def _points(whole: Record, kills: int, seed: int) -> list[Point]:
    """Random, and one after the other, so that each restart has something left to do."""
    points = whole.points()
    count = min(kills, len(points))
    return sorted(random.Random(seed).sample(points, count))


def _steps_by_weights(whole: Record) -> dict[str, int]:
    """Where a warm-up from 0 leaves weights as they were, the earliest step."""
    known = {whole.began or "": 0}
    for number, step in enumerate(whole.steps, 1):
        known.setdefault(step.weights, number)
    return known


def _refuse_what_is_not_fresh(killed: Killed) -> None:
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
        _checked(first)


def _resumptions(killed: Killed) -> Iterator[Kill]:
    for point, following in zip(killed.kills, killed.starts[1:], strict=False):
        record = following.record
        yield Kill(point, None if record is None else killed.base(record))


def _failure(killed: Killed) -> str | None:
    last = killed.starts[-1]
    number = len(killed.kills)
    if last.code != 0:
        return f"started again after kill {number}, it fails {_exit(last.code)}:{last.last_words()}"
    if last.record is None or last.record.final is None:
        return f"started again after kill {number}, it ends at once and builds no optimizer"
    return None


def _first_parting(killed: Killed, whole: Record) -> Parting | None:
    first, *restarts = killed.records
    steady = seeded(first, whole)
    for number, record in enumerate(restarts, 1):
        found = parting(number, record, whole, steady)
        if found is not None:
            return found
    return None


def after(point: Point) -> str:
    """A point in words."""
    step, micro = point
    if not micro:
        return f"after step {step}"
    return f"in step {step + 1}, after micro-step {micro}"
