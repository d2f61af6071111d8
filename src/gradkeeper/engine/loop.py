"""One call of windows() or batches(): what was asked for, and how far it has come."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from gradkeeper.engine.ranks.even import EvenStream
from gradkeeper.engine.resume.open_window import OpenWindow
from gradkeeper.engine.stream import Stream

Kind = Literal["windows", "batches"]


@dataclass(slots=True, eq=False)
class Loop:
    kind: Kind
    size: int
    epochs: int
    stream: Stream | EvenStream
    loader: int
    """Which of the engine's loaders it reads, by the order of their first use."""
    handed: int = 0
    """Windows or groups of this epoch that are behind."""
    open: OpenWindow | None = None
    """One that was open at a save, to be handed out again."""

    over: bool = False
    """Another process has been through it."""

    def epochs_left(self) -> Iterator[int]:
        """Begins each, except for one that another process has begun."""
        if self.over:
            return
        if self.stream.position.epoch >= 0:
            yield self.stream.position.epoch
        while self.stream.position.epoch + 1 < self.epochs:
            self.handed = 0
            self.stream.begin_epoch()
            yield self.stream.position.epoch

    @property
    def shape(self) -> dict[str, Any]:
        """What must be equal on resume."""
        return {"loop": self.kind, "size": self.size, "loader": self.stream.feed.shape}

    @property
    def place(self) -> tuple[int, int]:
        return self.stream.position.epoch, self.stream.position.batch

    def state(self) -> dict[str, Any]:
        position = self.stream.position
        return {
            "epochs": self.epochs,
            "epoch": position.epoch,
            "batch": position.batch,
            "ended": self.stream.ended,
            "handed": self.handed,
            "loader": self.loader,
            "shape": self.shape,
            "stream": self.stream.state(),
        }

    def take_open(self) -> OpenWindow | None:
        taken, self.open = self.open, None
        return taken
