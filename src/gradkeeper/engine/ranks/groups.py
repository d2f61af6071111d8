"""Groups of micro-batches, as batches() hands them out, on several ranks."""

from typing import Any

from torch import nn

from gradkeeper.engine.ranks.even import EvenStream
from gradkeeper.engine.ranks.undo import Before
from gradkeeper.engine.stream import group_of


class Groups:
    def __init__(self, models: list[nn.Module]) -> None:
        self._models = models
        self._before: Before | None = None
        self.uneven = False
        """Some rank may have a shorter one, and would not take part in all exchanges."""

    @property
    def again(self) -> bool:
        """Whether this rank was handed its last one again: nothing in it counts."""
        return self._before is not None

    def take(self, stream: EvenStream, size: int) -> list[Any]:
        self.uneven = not stream.gives_all(size)
        group = group_of(stream, size)
        if group:
            stream.last = group
            return group
        last: list[Any] = stream.once_more()
        self._before = Before(self._models)
        return last

    def over(self) -> None:
        self.uneven = False
        if self._before is not None:
            self._before.restore()
            self._before = None
