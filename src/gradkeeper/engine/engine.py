"""The engine hands out windows and knows who owns what. What a window does: see window.py."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Optimizer

from gradkeeper.engine.desk import Desk
from gradkeeper.engine.errors import SetupError, UnknownOwnerError, UnusedWindowError
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.log import Log, no_log, values_of
from gradkeeper.engine.moving import mover
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.progress import progress_for, windows_in
from gradkeeper.engine.ranks import EvenStream, Sync, ranks_of
from gradkeeper.engine.setup import PrecisionName, open_books, owners_of
from gradkeeper.engine.stream import END, Stream
from gradkeeper.engine.window import Window
from gradkeeper.model import Tape


class Engine:
    """Runs training windows: every gradient a loss produces reaches the weights exactly once.

    With several owners, models and optimizers are dicts by name; scheduler, clip_norm and
    clip_value may be. `to` moves batches to a device. `log` is called with the step and a dict of
    numbers after each window. On several ranks, `sync` says on which micro-batches of a window
    gradients are exchanged: "last" (default for DDP) or "every" (default for FSDP2). `tape` is
    where the engine writes down what it did; left out, the latest events are kept in memory.
    """

    def __init__(
        self,
        model: nn.Module | Mapping[str, nn.Module],
        optimizer: Optimizer | Mapping[str, Optimizer],
        *,
        scheduler: Any = None,
        clip_norm: float | Mapping[str, float] | None = None,
        clip_value: float | Mapping[str, float] | None = None,
        precision: PrecisionName = "fp32",
        on_nonfinite: Literal["raise", "skip"] = "raise",
        sync: Sync | None = None,
        to: str | torch.device | None = None,
        progress: bool = True,
        log: Log | None = None,
        tape: Tape | None = None,
    ) -> None:
        if on_nonfinite not in ("raise", "skip"):
            raise SetupError(f"on_nonfinite is 'raise' or 'skip', not {on_nonfinite!r}")
        self._owners = owners_of(model, optimizer, scheduler, clip_norm, clip_value, precision)
        self._move = mover(to)
        self._logs = log is not None
        self._log = log or no_log
        self._journal = Journal(tape)
        ranks = ranks_of(self._owners.values(), sync, self._journal)
        self._journal.rank = ranks.rank
        self._progress = progress_for(wanted=progress and ranks.first)
        self._desk = Desk(
            journal=self._journal,
            ranks=ranks,
            raise_nonfinite=on_nonfinite == "raise",
            closed=self._tell,
            told_of_coupling=not ranks.first,
        )
        open_books(self._owners.values(), self._journal)

    @property
    def tape(self) -> Tape:
        """What the engine did: all of it on a tape of your own, else the latest."""
        return self._journal.tape

    @property
    def steps(self) -> dict[str, int]:
        """Steps taken so far, by owner."""
        return {name: owner.steps for name, owner in self._owners.items()}

    def window(self, owner: str | None = None) -> Window:
        """One window, for micro-batches that the caller brings."""
        return Window(self._owner(owner), self._desk)

    def windows(self, loader: Iterable[Any], size: int = 1, epochs: int = 1) -> Iterator[Window]:
        """Windows of `size` micro-batches; a short tail of an epoch is one more window."""
        _check_counts(size=size, epochs=epochs)
        return self._windows(self._owner(None), loader, size, epochs)

    def _windows(
        self, owner: Owner, loader: Iterable[Any], size: int, epochs: int
    ) -> Iterator[Window]:
        for stream in self._epochs(loader, size, epochs):
            unread = 0
            while stream.more():
                window = Window(owner, self._desk, stream=stream, size=size)
                yield window
                self._progress.advance()
                unread = 0 if window.read or stream.ended else unread + 1
                _check_used(window, unread)

    def batches(self, loader: Iterable[Any], size: int = 1, epochs: int = 1) -> Iterator[list[Any]]:
        """Groups of `size` micro-batches, for loops with several owners; the last may be short."""
        _check_counts(size=size, epochs=epochs)
        return self._groups(loader, size, epochs)

    def _groups(self, loader: Iterable[Any], size: int, epochs: int) -> Iterator[list[Any]]:
        for stream in self._epochs(loader, size, epochs):
            while stream.more():
                group = self._desk.ranks.group(_group(stream, size))
                if group:
                    yield group
                    self._progress.advance()

    def _epochs(
        self, loader: Iterable[Any], size: int, epochs: int
    ) -> Iterator[Stream | EvenStream]:
        """The same stream, once for each epoch."""
        stream = self._desk.ranks.even(Stream(loader, self._move, self._journal))
        try:
            for epoch in range(epochs):
                self._progress.begin(epoch, epochs, windows_in(stream.length, size))
                stream.begin_epoch()
                yield stream
        except BaseException:
            self._desk.ranks.left()
            raise
        finally:
            self._progress.end()

    def _owner(self, name: str | None) -> Owner:
        if name is None and len(self._owners) == 1:
            return next(iter(self._owners.values()))
        known = ", ".join(repr(one) for one in self._owners)
        if name is None:
            raise UnknownOwnerError(
                f"this engine has owners {known}: say which one a window credits, with "
                "engine.window(owner=…), and take the data from engine.batches(loader)"
            )
        if name not in self._owners:
            raise UnknownOwnerError(f"there is no owner {name!r}; there are: {known}")
        return self._owners[name]

    def _tell(self, window: Window) -> None:
        self._progress.closed(window)
        if self._logs:
            rate = self._owners[window.owner].optimizer.param_groups[0]["lr"]
            prefix = "" if len(self._owners) == 1 else f"{window.owner}/"
            self._log(window.step, values_of(window, float(rate), prefix=prefix))


def _check_counts(**counts: int) -> None:
    for name, number in counts.items():
        if not isinstance(number, int) or number < 1:
            raise SetupError(f"{name} is a whole number from 1 on, not {number!r}")


def _group(stream: Stream | EvenStream, size: int) -> list[Any]:
    group: list[Any] = []
    while len(group) < size:
        batch = stream.read()
        if batch is END:
            break
        group.append(batch)
    return group


def _check_used(window: Window, unread: int) -> None:
    """What is not read goes to the next window, so a loop that reads nothing would never end."""
    if window.state == "new":
        raise UnusedWindowError(
            "a window was handed out and never entered: write `with window:` around its losses"
        )
    if unread > 1:
        raise UnusedWindowError(
            "two windows in a row read none of their micro-batches, and the same ones would come "
            "again for ever: write `for batch in window:` inside the block"
        )
