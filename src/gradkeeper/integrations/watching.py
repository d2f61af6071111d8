"""A watch that begins and ends by two calls, for frameworks that call back."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from gradkeeper.integrations.ignoring import codes_of
from gradkeeper.model import Finding, Tape
from gradkeeper.watcher.session import OnFinding, choice_of, ignore
from gradkeeper.watching import Watch, to_stderr


class CalledWatch:
    """`findings` are those of the training that runs, or of the last one."""

    def __init__(
        self,
        *,
        on_finding: OnFinding | None = None,
        ignore: str | Iterable[str] = (),
        tape: str | os.PathLike[str] | None = None,
    ) -> None:
        self.on_finding = choice_of(on_finding)
        self._ignored = codes_of(ignore)
        self._tape = None if tape is None else Path(tape)
        self._stack = ExitStack()
        self.findings: list[Finding] = []

    def begin(self, rank: int) -> None:
        """Begins; what a training that died has left open is closed first."""
        self.end()
        with ExitStack() as stack:
            stack.enter_context(ignore(*self._ignored))
            tape = self._open_tape(stack, rank)
            watch = Watch(on_finding=self.on_finding, show=to_stderr, tape=tape)
            stack.callback(self._keep, watch)
            stack.enter_context(watch)
            self._stack = stack.pop_all()

    def end(self) -> None:
        """Closes the books; at once where they are closed already."""
        self._stack.close()

    def _keep(self, watch: Watch) -> None:
        self.findings = watch.findings

    def _open_tape(self, stack: ExitStack, rank: int) -> Tape:
        if self._tape is None:
            return Tape()
        path = self._tape if rank == 0 else self._tape.with_name(f"{self._tape.name}.rank{rank}")
        return Tape(stack.enter_context(path.open("w", encoding="utf-8")), keep=False)
