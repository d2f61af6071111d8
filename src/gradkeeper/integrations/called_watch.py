"""A watch that begins and ends by two calls, for frameworks that call back."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from gradkeeper.integrations.ignoring import codes_of
from gradkeeper.model import Finding, Tape
from gradkeeper.model.tape import read_file
from gradkeeper.report.statement import statement
from gradkeeper.rules import ALL
from gradkeeper.watcher.session import OnFinding, choice_of, ignore
from gradkeeper.watching import Watch, shower

PathLike = str | os.PathLike[str]


class CalledWatch:
    """`findings` are those of the last training that is over."""

    def __init__(
        self,
        *,
        on_finding: OnFinding | None = None,
        ignore: str | Iterable[str] = (),
        tape: PathLike | None = None,
        report: PathLike | None = None,
    ) -> None:
        self._on_finding = choice_of(on_finding)
        self._ignored = codes_of(ignore)
        self._tape = None if tape is None else Path(tape)
        self._report = None if report is None else Path(report)
        self._open = ExitStack()
        self.findings: list[Finding] = []

    def begin(self, *, rank: int, title: str) -> None:
        """Begins; what a training that died has left open is closed first."""
        self.end()
        # Closed in the reverse order: the watch, then its tape, then the page that is read from it.
        with ExitStack() as stack:
            written = self._file(rank, stack)
            tape = Tape()
            if written is not None:
                stack.callback(self._write_report, written, rank, title)
                stream = stack.enter_context(written.open("w", encoding="utf-8"))
                tape = Tape(stream, keep=False)
            stack.enter_context(ignore(*self._ignored))
            watch = Watch(on_finding=self._on_finding, show=shower(), tape=tape)
            stack.callback(self._keep, watch)
            stack.enter_context(watch)
            self._open = stack.pop_all()

    def end(self) -> None:
        """Closes the books, if they are open."""
        self._open.close()

    def _keep(self, watch: Watch) -> None:
        self.findings = watch.findings

    def _file(self, rank: int, stack: ExitStack) -> Path | None:
        """Where events go; each rank has its own."""
        if self._tape is not None:
            return self._tape.with_name(f"{self._tape.name}.rank{rank}") if rank else self._tape
        if self._report is None or rank:
            return None
        return Path(stack.enter_context(TemporaryDirectory(prefix="gradkeeper-")), "tape")

    def _write_report(self, tape: Path, rank: int, title: str) -> None:
        if self._report is not None and rank == 0:
            page = statement(read_file(tape), ALL, self.findings, title=title)
            self._report.write_text(page, encoding="utf-8", errors="replace")
