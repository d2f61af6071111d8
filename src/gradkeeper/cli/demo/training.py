"""The character model's process: followed line by line, and killed at one of them."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gradkeeper.cli.demo.stage import LIMIT, environment, expect, say

EVERY = 8
"""Of so many steps one is shown."""


@dataclass
class Training:
    """What a process told: one line for each micro-batch and step, at last its weights' digest."""

    steps: int = 0
    pending: int = 0
    resumed: int | None = None
    digest: str | None = None
    code: int = 0
    rest: list[str] = field(default_factory=list)

    def hear(self, line: str) -> None:
        match line.split():
            case ["micro-batch", number]:
                self.pending = int(number)
            case ["step", number, "loss", _]:
                self.steps, self.pending = int(number.rstrip(":")), 0
                if self.steps % EVERY == 0:
                    say(f"   {line}")
            case ["resumed", "after", "step", number]:
                self.resumed = self.steps = int(number)
                say(f"   {line}")
            case ["weights", digest]:
                self.digest = digest
            case _:
                self.rest.append(line)

    def at(self, steps: int, pending: int) -> bool:
        return (self.steps, self.pending) == (steps, pending)


def trained(script: Path, checkpoints: str) -> Training:
    """To the end."""
    found = Training()
    with _started(script, checkpoints) as process:
        for line in _lines(process):
            found.hear(line)
        found.code = process.wait()
    expect(found.code == 0 and found.digest is not None, "the training failed:" + _told(found))
    return found


def killed(script: Path, checkpoints: str, *, steps: int, pending: int) -> Training:
    """Until so many micro-batches after a step; then no signal handler, no goodbye."""
    found = Training()
    with _started(script, checkpoints) as process:
        for line in _lines(process):
            found.hear(line)
            if found.at(steps, pending):
                process.kill()
        found.code = process.wait()
    died = found.code == -signal.SIGKILL
    expect(died, f"the training ended with code {found.code} before the kill:" + _told(found))
    return found


def _told(found: Training) -> str:
    return "".join(f"\n   {line}" for line in found.rest[-20:])


@contextmanager
def _started(script: Path, checkpoints: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, script.name, checkpoints],
        cwd=script.parent,
        env=environment(script.parent),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    alarm = threading.Timer(LIMIT, process.kill)
    alarm.start()
    try:
        with process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        alarm.cancel()


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    for line in process.stdout or ():
        yield line.rstrip()
