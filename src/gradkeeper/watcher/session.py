"""`with watch(...)`: the taps in place, recorders for the threads, and what they found."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal

import torch

from gradkeeper.model import Auditor, Finding, Findings, Severity, Tape
from gradkeeper.rules import ALL
from gradkeeper.source_line import Sites
from gradkeeper.watcher.accounts import ThreadOwnership
from gradkeeper.watcher.event_log import EventLog
from gradkeeper.watcher.patches import Undoing
from gradkeeper.watcher.ranks import RepeatedTurns
from gradkeeper.watcher.recorder import Recorder
from gradkeeper.watcher.taps import tap
from gradkeeper.watcher.taps.call import Calls, FindingError
from gradkeeper.watcher.taps.reads import Reads

OnFinding = Literal["warn", "raise", "record"]
CHOICES: tuple[OnFinding, ...] = ("warn", "raise", "record")
Show = Callable[[Finding], None]

_ignored = threading.local()


@contextmanager
def ignore(*codes: str) -> Iterator[None]:
    """What these rules find inside the block is neither shown nor counted."""
    before: frozenset[str] = getattr(_ignored, "codes", frozenset())
    _ignored.codes = before | set(codes)
    try:
        yield
    finally:
        _ignored.codes = before


def choice_of(asked: str | None) -> OnFinding:
    """What was asked for; else what GRADKEEPER says, for launchers that cannot pass an option."""
    source = "on_finding" if asked else "the environment variable GRADKEEPER"
    wanted = asked or os.environ.get("GRADKEEPER") or "warn"
    for choice in CHOICES:
        if wanted == choice:
            return choice
    raise ValueError(f"{source} must be one of {', '.join(CHOICES)}, not {wanted!r}")


class Watch:
    """A running watch. `show` is called once for each new error or warning."""

    def __init__(
        self,
        optimizers: tuple[torch.optim.Optimizer, ...] = (),
        *,
        model: torch.nn.Module | None = None,
        on_finding: OnFinding | None = None,
        check_finite: bool = False,
        show: Show | None = None,
        tape: Tape | None = None,
        own: tuple[str, ...] = (),
        norms: bool = False,
    ) -> None:
        self.tape = tape if tape is not None else Tape()
        self._found = Findings()
        self._optimizers = optimizers
        self._model = model
        self.on_finding = choice_of(on_finding)
        self._check_finite = check_finite
        self._show = show
        self._norms = norms
        self._sites = Sites(own)
        self._calls = Calls(self._make_recorder)
        self._reads = Reads(self._calls)
        self._recorders: list[Recorder] = []
        self._threads = ThreadOwnership()
        self._undoing = Undoing()
        # A signal may close the watch while the same thread holds it.
        self._lock = threading.RLock()
        self._closing = self._closed = False

    @property
    def findings(self) -> list[Finding]:
        """Errors and warnings, each line and rule once."""
        return [finding for finding in self._found if finding.counts]

    @property
    def infos(self) -> list[Finding]:
        return [finding for finding in self._found if finding.severity is Severity.INFO]

    @property
    def runs(self) -> list[RepeatedTurns] | None:
        """What this rank did from one exchange of gradients to the next; None if several threads
        exchange, for nobody knows in which order."""
        held = [recorder.log.history for recorder in self._recorders if recorder.log.history.runs]
        if len(held) > 1:
            return None
        return held[0].runs if held else []

    @property
    def replicas(self) -> dict[str, Any]:
        """What this rank's weights came to, for those who should hold the same."""
        held = [
            recorder.replicas.told()
            for recorder in self._recorders
            if recorder.replicas is not None
        ]
        return {name: told for some in held for name, told in some.items()}

    def __enter__(self) -> "Watch":
        self._closed = False
        self._calls.begin()
        self._undoing.add(*tap(self._calls))
        self._reads.place()
        recorder = self._calls.recorder()
        if recorder is not None:
            if self._model is not None:
                parameters: list[torch.Tensor] = list(self._model.parameters())
                named = {"model": self._model}
                recorder.accounts.modules.learn(parameters, named, named.values)
            for optimizer in self._optimizers:
                recorder.optimizers.adopt(optimizer)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(raising=error is not None)

    @property
    def trained(self) -> bool:
        """A backward or a step of an optimizer has been seen."""
        return any(recorder.log.trained for recorder in self._recorders)

    def close(self, *, raising: bool = True) -> None:
        """Ends the watch, once; with `raising`, another exception is on its way, or the end of the
        process, and a finding is only kept."""
        if self._closed:
            return
        self._closed = True
        self._undoing.undo()
        self._closing = raising
        try:
            for recorder in self._recorders:
                self._calls.tell(recorder.close)
        finally:
            # Last: a log that ends in the middle of a pattern listens once more.
            self._reads.remove()
            self._calls.end()

    def _make_recorder(self) -> Recorder:
        log = EventLog(Auditor(ALL), self.tape, self._report, rank=_rank(), reads=self._reads)
        recorder = Recorder(log, self._sites, self._threads, self._optimizers, norms=self._norms)
        recorder.steps.check_finite = self._check_finite
        with self._lock:
            self._recorders.append(recorder)
        return recorder

    def _report(self, finding: Finding) -> bool:
        """False if it is ignored here."""
        if finding.rule in getattr(_ignored, "codes", ()):
            return False
        with self._lock:
            first = self._found.add(finding)
        if not first or finding.severity is Severity.INFO:
            return True
        if self._show is not None and self.on_finding == "warn":
            self._show(finding)
        if self.on_finding == "raise" and not self._closing:
            raise FindingError(finding)
        return True


def _rank() -> int | None:
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
        return None
    return int(os.environ.get("RANK", "0"))
