"""Runs a script under watch in a fork of this process, which has imported torch already: its seeds,
patches and working folder are its own."""

import contextlib
import io
import json
import os
import runpy
import signal
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gradkeeper.model.events import Step
from gradkeeper.watcher import Watch

PATIENCE = 120
"""Seconds for one script."""


@dataclass(frozen=True)
class Seen:
    """The rules and lines of errors and warnings, and how many steps are on the tape."""

    found: list[tuple[str, int]]
    steps: int


def watched(script: Path, folder: Path, *, ends: bool = False) -> Seen:
    """What a watch of the script saw.

    `ends`: an exception of the script's own is part of the case.
    """
    answer = folder / "answer.json"
    with warnings.catch_warnings():
        # Threads of torch are idle here, and the child starts none before it ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _in_child(script, folder, answer, ends=ends)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"ended by signal {status}"
    told = json.loads(answer.read_text())
    assert "error" not in told, told["error"]
    return Seen([(rule, line) for rule, line in told["found"]], told["steps"])


def _in_child(script: Path, folder: Path, answer: Path, *, ends: bool) -> None:
    """Never returns: what pytest would do after it is the parent's business."""
    signal.alarm(PATIENCE)
    try:
        told = _run(script, folder, ends=ends)
    except BaseException:
        told = {"error": traceback.format_exc()}
    answer.write_text(json.dumps(told))
    os._exit(0)


def _run(script: Path, folder: Path, *, ends: bool) -> dict[str, Any]:
    os.chdir(folder)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.argv = [str(script)]
    own = (f"{script.parent}{os.sep}",)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        watch = Watch(on_finding="record", own=own)
        with contextlib.suppress(*((Exception,) if ends else ())), watch:
            runpy.run_path(str(script), run_name="__main__")
    found = [(one.rule, one.site.line) for one in watch.findings]
    return {"found": found, "steps": sum(isinstance(one, Step) for one in watch.tape)}
