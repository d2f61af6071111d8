"""One start of the command, with a witness in every Python process of it, its end, and what the
witnesses wrote.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradkeeper.prove import ProveError
from gradkeeper.prove.working_copy import WorkingCopy, turned

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
ENV = "GRADKEEPER_PROVE"
"""As in the bootstrap, which is a program of its own and brings the witness, and this file, in."""
KillPoint = tuple[int, int]  # steps taken, and backward calls since the last one


# What a witness wrote about one process, read back.


@dataclass(frozen=True)
class BackwardRecord:
    """The state in which a backward was called; digests, None where there was nothing."""

    step: int
    micro: int
    weights: str
    optimizer: str
    gradients: str | None
    batch: str | None
    generators: dict[str, str]
    loss: str | None


@dataclass(frozen=True)
class StepRecord:
    """What a step left."""

    weights: str
    rates: tuple[float | None, ...]


@dataclass(frozen=True)
class ProcessRecord:
    """One process of the command, from its first optimizer on."""

    trainer: str
    began: str | None  # the digest of the weights before its first backward or step
    events: tuple[BackwardRecord | StepRecord, ...]
    killed: bool
    final: str | None  # the digest of all parameters when the script ended by itself

    @property
    def backwards(self) -> list[BackwardRecord]:
        return [event for event in self.events if isinstance(event, BackwardRecord)]

    @property
    def steps(self) -> list[StepRecord]:
        return [event for event in self.events if isinstance(event, StepRecord)]

    def points(self) -> list[tuple[int, int]]:
        """After each event: steps taken, and backward calls since the last one."""
        found, steps, micro = [], 0, 0
        for event in self.events:
            if isinstance(event, StepRecord):
                steps, micro = steps + 1, 0
            else:
                micro += 1
            found.append((steps, micro))
        return found


def _read(path: Path) -> ProcessRecord:
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    events = tuple(_event(line) for line in lines if line["kind"] in ("backward", "step"))
    weights = {line["kind"]: line.get("weights") for line in lines}
    return ProcessRecord(
        trainer=lines[0]["trainer"],
        began=weights.get("began"),
        events=events,
        killed="killed" in weights,
        final=weights.get("end"),
    )


def _event(line: dict[str, Any]) -> BackwardRecord | StepRecord:
    facts = {name: value for name, value in line.items() if name != "kind"}
    if line["kind"] == "step":
        return StepRecord(facts["weights"], tuple(facts["rates"]))
    return BackwardRecord(**facts)


# The start itself.


@dataclass(frozen=True)
class KillPlan:
    """What the witness is told. `known` finds the step of a run by the weights it left."""

    trainer: str | None = None
    kill: KillPoint | None = None
    known: Mapping[str, int] = field(default_factory=dict)
    otherwise: int = 0  # the step where a process with unknown weights is taken to begin


@dataclass(frozen=True)
class Ended:
    """What is left of a start."""

    code: int
    record: ProcessRecord | None
    folder: Path
    working_copy: WorkingCopy
    seconds: float
    late: float | None = None  # after how many seconds it was ended, because it took too long

    def last_words(self) -> str:
        """The end of what it printed, with the paths that its user knows."""
        text = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        for root, copy in self.working_copy.copies.items():
            text = text.replace(str(copy), str(root))
        lines = text.rstrip().splitlines()[-12:]
        return "".join(f"\n    {line}" for line in lines)


def start(
    command: Sequence[str],
    working_copy: WorkingCopy,
    folder: Path,
    plan: KillPlan,
    *,
    timeout: float | None = None,
) -> Ended:
    """Runs the command in its working_copy until it ends or is killed."""
    began = time.monotonic()
    folder.mkdir(parents=True)
    _write_plan(folder, plan, [str(root) for root in working_copy.copies])
    words = [turned(word, working_copy) for word in command]
    environment = _environment(folder)
    with (folder / "log").open("wb") as log:
        try:
            process = subprocess.Popen(
                words,
                cwd=working_copy.cwd,
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
    return Ended(process.returncode, _record(folder), folder, working_copy, seconds, late)


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


def _write_plan(folder: Path, plan: KillPlan, roots: list[str]) -> None:
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
    shutil.copy(BOOTSTRAP, early / "sitecustomize.py")
    environment = dict(os.environ)
    paths = [str(early), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment[ENV] = str(folder)
    if importlib.util.find_spec("torch") is not None:
        # `python` means the one that has gradkeeper and torch, as if its venv were activated.
        own = os.path.dirname(sys.executable)
        environment["PATH"] = os.pathsep.join([own, environment.get("PATH", os.defpath)])
    return environment


def _record(folder: Path) -> ProcessRecord | None:
    """The trainer's. The command's own process comes before those that it started."""
    paths = sorted(folder.glob("record-*.jsonl"), key=lambda path: path.stat().st_ctime_ns)
    records = [_read(path) for path in paths]
    records.sort(key=lambda record: record.trainer != "command")
    return records[0] if records else None


def has_python(folder: Path) -> bool:
    return any(folder.glob("process-*"))


# All processes of a start, ended as a power cut would


def kill_all(folder: Path) -> None:
    """At once, so that no launcher or shell goes on by itself; this process last."""
    kill_others(folder)
    _kill(os.getpid())


def kill_others(folder: Path) -> None:
    """All but this process, unless it is of the command's own group."""
    here = os.getpid()
    for path in folder.glob("process-*"):
        other = int(path.name.partition("-")[2])
        # Launchers give their workers sessions of their own, which the group does not reach.
        if other != here and _is_ours(other, folder):
            _kill(other)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(int((folder / "group").read_text()), signal.SIGKILL)


def _is_ours(process: int, folder: Path) -> bool:
    """Its number may have passed to a stranger: where that cannot be told, it is left alone."""
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False
    return f"{ENV}={folder}".encode() in environment.split(b"\0")


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
