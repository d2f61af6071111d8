"""Runs the command to the end, runs it again with kills, and compares."""

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gradkeeper.prove.checking import checked
from gradkeeper.prove.errors import ProveError
from gradkeeper.prove.killed import (
    Killed,
    failure,
    first_parting,
    refuse_what_is_not_fresh,
    resumptions,
    steps_by_weights,
)
from gradkeeper.prove.outputs import written
from gradkeeper.prove.record import Record
from gradkeeper.prove.running import Ended, Plan, Point, start
from gradkeeper.prove.verdict import Proof, after
from gradkeeper.prove.workplace import Source, Workplace, build, source_of, written_into

Say = Callable[[str], None]
KILLS = 5
PATIENCE, LEAST = 20, 120
"""A restart that hangs takes for ever; one on a machine that has become busy takes its time."""


def prove(
    command: Sequence[str],
    *,
    kills: int = KILLS,
    seed: int = 0,
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
        job = _Job(tuple(command), source, session, say, timeout)
        whole = job.run_whole("reference")
        record = checked(whole)
        if timeout is None:
            job = replace(job, timeout=PATIENCE * whole.seconds + LEAST)
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
    timeout: float | None

    def run_whole(self, name: str, trainer: str | None = None) -> Ended:
        workplace = self._workplace(name)
        ended = self._start(workplace, self.session / name / "start", Plan(trainer))
        self._clear(ended)
        return ended

    def run_killed(self, whole: Record, points: Sequence[Point]) -> Killed:
        workplace = self._workplace("killed")
        killed = Killed(known=steps_by_weights(whole))
        otherwise = 0
        try:
            for kill in [*points, None]:
                folder = self.session / "killed" / f"start-{len(killed.starts) + 1}"
                plan = Plan(whole.trainer, kill, killed.known, otherwise)
                ended = self._start(workplace, folder, plan)
                killed.starts.append(ended)
                refuse_what_is_not_fresh(killed)
                if ended.record is None or not ended.record.killed or kill is None:
                    break
                self.say(f"kill {len(killed.kills) + 1}: {after(kill)}")
                killed.kills.append(kill)
                outside = [str(path) for path in written(ended.folder) if path.is_file()]
                killed.left = (*written_into(workplace), *outside)
                killed.learn(ended.record, otherwise)
                otherwise = kill[0]
        finally:
            for ended in killed.starts:
                self._clear(ended)
        return killed

    def verdict(self, whole: Ended, killed: Killed, *, seed: int, asked: int) -> Proof:
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
        from gradkeeper.prove.weights import compare

        found = compare(whole.folder / "final", last.folder / "final")
        return replace(proof, comparison=found, parting=first_parting(killed, record))

    def _refuse_chance(self, record: Record) -> None:
        """Asked only now: if the killed run ends alike, no second opinion is needed."""
        self.say("they differ: running it to the end once more, to know that it repeats itself")
        again = checked(self.run_whole("again", record.trainer))
        if again.final != record.final:
            raise ProveError(
                "the script is not deterministic by itself: two uninterrupted runs end with "
                "different weights. Seed it (torch.manual_seed, random.seed, numpy.random.seed, "
                "the loader's generator), or use torch.use_deterministic_algorithms(True)"
            )

    def _start(self, workplace: Workplace, folder: Path, plan: Plan) -> Ended:
        return start(self.command, workplace, folder, plan, timeout=self.timeout)

    def _workplace(self, name: str) -> Workplace:
        return build(self.source, self.session / name / "work")

    def _clear(self, ended: Ended) -> None:
        """Removes what this start wrote into the folder itself, by an absolute path."""
        found = written(ended.folder).items()
        # With --keep the copies may be in the folder too: what is written there is meant to stay.
        files = {path: old for path, old in found if not path.is_relative_to(self.session)}
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


def _points(whole: Record, kills: int, seed: int) -> list[Point]:
    """Random, and one after the other, so that each restart has something left to do."""
    points = whole.points()
    count = min(kills, len(points))
    return sorted(random.Random(seed).sample(points, count))
