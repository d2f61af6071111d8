"""What `check --watch` does: checks again whenever a file has changed, until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.streams import tell
from gradkeeper.lint.incremental import Incremental
from gradkeeper.report.source import forget

if TYPE_CHECKING:
    from gradkeeper.lint.program import Checked

PAUSE = 0.3
"""Seconds between two looks, at least."""
SHARE = 0.05
"""Of the time, for looking."""
CLEAR = "\x1b[2J\x1b[3J\x1b[H"

Results = list[tuple[str, "Checked"]]


def watch(paths: list[str], report: Callable[[Results], str]) -> NoReturn:
    """Tells the report, and again each time that it has become another one."""
    check = Incremental(paths)
    last = None
    while True:
        began = time.monotonic()
        check.look_around()
        before = check.rehearsed
        results = sorted(check.check().items())
        forget()
        text = _told(report, results)
        if text != last:
            _show(text, again=last is not None)
            last = text
        took = time.monotonic() - began
        # A round in which something was rehearsed says nothing of what looking costs.
        time.sleep(PAUSE if check.rehearsed > before else max(PAUSE, took / SHARE))


def _told(report: Callable[[Results], str], results: Results) -> str:
    """What is wrong with settings is told as well: they may be mended while it watches."""
    try:
        return report(results)
    except CliError as error:
        return f"gradkeeper check: {error}\n"


def _show(text: str, *, again: bool) -> None:
    """Between two lines by which an editor that reads along knows beginning and end."""
    if sys.stdout.isatty():
        tell(CLEAR)
    elif again:
        tell("\n")
    tell(f"checked at {time.strftime('%H:%M:%S')}\n{text}watching; Ctrl-C ends\n")
