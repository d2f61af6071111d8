"""Files that the script writes, by an absolute path, into the folder that its runs only copy.

They would be found by the next run, which has to start from nothing. Seen are Python's own `open`,
renames, new folders, and `torch.save`, whose writer opens files behind Python's back.
"""

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradkeeper.prove.workplace import LINKED, SKIPPED

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Outputs:
    """Writes a line for each such file: its path, and whether it was there before."""

    def __init__(self, roots: list[str], log: Path) -> None:
        self._roots = tuple(os.path.join(root, "") for root in roots)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._seen: set[str] = set()
        self._here = True

    def tap(self) -> None:
        # For good: Python has no way to remove an audit hook.
        sys.addaudithook(self._hear)

    def leave(self) -> None:
        self._here = False

    def saving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """To be put in the place of `torch.save`."""

        @functools.wraps(original)
        def save(thing: Any, f: Any, *args: Any, **options: Any) -> Any:
            self._note(f)
            return original(thing, f, *args, **options)

        return save

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[2], int) and args[2] & WRITING:
            self._note(args[0])
        elif event == "os.rename":
            self._note(args[1])
        elif event == "os.mkdir":
            self._note(args[0])

    def _note(self, path: Any) -> None:
        if not self._here or not isinstance(path, str | os.PathLike):
            return
        whole = os.path.abspath(os.fsdecode(path))
        if whole in self._seen or not whole.startswith(self._roots):
            return
        self._seen.add(whole)
        if not (LINKED | SKIPPED).isdisjoint(Path(whole).parts):
            return
        line = json.dumps([whole, os.path.lexists(whole)])
        os.write(self._log, f"{line}\n".encode())


def written(folder: Path) -> dict[Path, bool]:
    """By all processes of a run: whether each was there before the first one wrote to it."""
    found: dict[Path, bool] = {}
    for log in sorted(folder.glob("outputs-*")):
        for line in log.read_text(encoding="utf-8").splitlines():
            path, existed = json.loads(line)
            found.setdefault(Path(path), existed)
    return found
