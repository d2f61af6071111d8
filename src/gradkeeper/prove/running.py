"""One start of the command, with a witness in every Python process of it."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradkeeper.prove import bootstrap
from gradkeeper.prove.errors import ProveError
from gradkeeper.prove.killing import kill_others
from gradkeeper.prove.record import Record, read
from gradkeeper.prove.workplace import Workplace, turned

Point = tuple[int, int]  # steps taken, and backward calls since the last one


@dataclass(frozen=True)
class Plan:
    """What the witness is told. `known` finds the step of a run by the weights it left."""

    trainer: str | None = None
    kill: Point | None = None
    known: Mapping[str, int] = field(default_factory=dict)
    otherwise: int = 0  # the step where a process with unknown weights is taken to begin


@dataclass(frozen=True)
class Ended:
    """What is left of a start."""

    code: int
    record: Record | None
    folder: Path
    workplace: Workplace
    seconds: float
    late: float | None = None  # after how many seconds it was ended, because it took too long

    def last_words(self) -> str:
        """The end of what it printed, with the paths that its user knows."""
        text = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        for root, copy in self.workplace.copies.items():
            text = text.replace(str(copy), str(root))
        lines = text.rstrip().splitlines()[-12:]
        return "".join(f"\n    {line}" for line in lines)


def start(
    command: Sequence[str],
    workplace: Workplace,
    folder: Path,
    plan: Plan,
    *,
    timeout: float | None = None,
) -> Ended:
    """Runs the command in its workplace until it ends or is killed."""
    began = time.monotonic()
    folder.mkdir(parents=True)
    _write_plan(folder, plan, [str(root) for root in workplace.copies])
    words = [turned(word, workplace) for word in command]
    environment = _environment(folder)
    with (folder / "log").open("wb") as log:
        try:
            process = subprocess.Popen(
                words,
                cwd=workplace.cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ProveError(f"{command[0]} cannot be started: {error.strerror}") from None
        (folder / "group").write_text(str(process.pid))
        late = _wait(process, folder, timeout)
    seconds = time.monotonic() - began
    return Ended(process.returncode, _record(folder), folder, workplace, seconds, late)


def _wait(process: "subprocess.Popen[bytes]", folder: Path, timeout: float | None) -> float | None:
    try:
        process.wait(timeout)
    except BaseException as reason:
        kill_others(folder)
        process.wait()
        if isinstance(reason, subprocess.TimeoutExpired):
            return timeout
        raise
    return None


def _write_plan(folder: Path, plan: Plan, roots: list[str]) -> None:
    kill = None
    if plan.kill is not None:
        step, micro = plan.kill
        kill = {"step": step, "micro": micro, "otherwise": plan.otherwise}
    told = {
        "trainer": plan.trainer,
        "parent": os.getpid(),
        "kill": kill,
        "known": dict(plan.known),
        "roots": roots,
    }
    (folder / "plan.json").write_text(json.dumps(told), encoding="utf-8")


def _environment(folder: Path) -> dict[str, str]:
    early = folder / "early"
    early.mkdir()
    shutil.copy(bootstrap.__file__, early / "sitecustomize.py")
    environment = dict(os.environ)
    paths = [str(early), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment[bootstrap.ENV] = str(folder)
    if importlib.util.find_spec("torch") is not None:
        # `python` means the one that has gradkeeper and torch, as if its venv were activated.
        own = os.path.dirname(sys.executable)
        environment["PATH"] = os.pathsep.join([own, environment.get("PATH", os.defpath)])
    return environment


def _record(folder: Path) -> Record | None:
    """The trainer's. The command's own process comes before those that it started."""
    paths = sorted(folder.glob("record-*.jsonl"), key=lambda path: path.stat().st_ctime_ns)
    records = [read(path) for path in paths]
    records.sort(key=lambda record: record.trainer != "command")
    return records[0] if records else None


def has_python(folder: Path) -> bool:
    return any(folder.glob("process-*"))
