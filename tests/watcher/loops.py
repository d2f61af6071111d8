"""Runs a piece of code as a script of its own under watch, and tells what was reported."""

import contextlib
import io
import linecache
import os
import textwrap
from pathlib import Path
from typing import Any

from gradkeeper.model import Finding
from gradkeeper.watcher import Watch

HEADER = """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
"""


class Loop:
    """A script that ran under watch."""

    def __init__(self, watch: Watch, path: Path, variables: dict[str, Any]) -> None:
        self.watch = watch
        self.path = path
        self.variables = variables

    @property
    def found(self) -> list[str]:
        """Errors and warnings as `GK101:8`."""
        return [_brief(one) for one in self.watch.findings]

    @property
    def everything(self) -> list[str]:
        return [_brief(one) for one in (*self.watch.findings, *self.watch.infos)]

    def line(self, words: str) -> int:
        lines = self.path.read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if words in line)


def _brief(finding: Finding) -> str:
    return f"{finding.rule}:{finding.site.line}"


KEPT: list[dict[str, Any]] = []
"""Of scripts with ranks. torch 2.13 waits for gloo's thread when a DDP model is freed, and holds
the lock that the thread needs to let go of the last exchange: if it has not yet, both wait on."""


def run(folder: Path, code: str, *, header: str = HEADER, **options: Any) -> Loop:
    """Runs the code in `folder` as `__main__` would, and closes the books."""
    path = folder / "loop.py"
    path.write_text(header + textwrap.dedent(code))
    linecache.checkcache(str(path))
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    compiled = compile(path.read_text(), str(path), "exec")
    before = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            with Watch(on_finding="record", **options) as watch:
                exec(compiled, variables)
    finally:
        os.chdir(before)
    if "init_process_group" in code:
        KEPT.append(variables)
    return Loop(watch, path, variables)
