"""What the acts share: words for the audience, commands shown with their output, expectations."""

import os
import re
import subprocess
import sys
from pathlib import Path

from gradkeeper.report.paint import paint_for

LIMIT = 300.0
"""Seconds: no command of the demo takes a tenth of it."""
COLOURS = re.compile(r"\x1b\[[\d;]*m")


class UnexpectedError(Exception):
    """It did not go as told: the message says what happened instead."""


def say(*lines: str) -> None:
    """Flushed, so that a reader behind a pipe follows too."""
    print(*lines, sep="\n", flush=True)


def title(text: str) -> None:
    say("", paint_for(sys.stdout).bold(text), "")


def expect(truth: bool, otherwise: str) -> None:
    if not truth:
        raise UnexpectedError(otherwise)


def gradkeeper(folder: Path, *words: str, code: int, remark: str = "") -> str:
    """Shows a command with its output, which it returns; the exit code must be the one told."""
    shown = " ".join(["gradkeeper", *words])
    say(paint_for(sys.stdout).dim(f"$ {shown}{remark and '    # '}{remark}"))
    output, found = called(folder, *words)
    say(output.rstrip(), "")
    expect(found == code, f"`{shown}` ended with exit code {found}, not {code}")
    return output


def plain(output: str) -> str:
    """Without the colours that a terminal is given."""
    return COLOURS.sub("", output)


def called(folder: Path, *words: str) -> tuple[str, int]:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gradkeeper", *words],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnexpectedError(f"`{' '.join(words)}` took longer than {LIMIT:.0f} s") from None
    return done.stdout, done.returncode


def environment(folder: Path) -> dict[str, str]:
    """The user's, but for what would change the course of the demo or outlive it."""
    kept = {name: value for name, value in os.environ.items() if name != "GRADKEEPER"}
    colour = "0" if paint_for(sys.stdout).bold("") == "" else "1"
    # One thread: the models are so small that more of them only wait for each other.
    ours = {"PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    # torch leaves a folder of its compiler's among the temporary files: here it goes with ours.
    return {**kept, **ours, "TMPDIR": str(folder), "FORCE_COLOR": colour}
