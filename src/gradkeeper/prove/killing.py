"""Ends the command as a power cut would: all its processes, at one point of the trainer's work."""

import contextlib
import os
import signal
from pathlib import Path

from gradkeeper.prove.bootstrap import ENV


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
