"""Whether the losses of an inner loop, with the step after it, come from one batch or from several;
the same of losses that follow on several batches fetched in a row.

Tasks and time steps of one batch share data: what their graphs hold lies in the same memory, be it
the batch, a part of it, or a state that goes from one step to the next. Batches share nothing, and
what is computed from one comes after the backward of the one before. Only where they are rows of
one dataset do they lie in its memory, each in a place of its own: see lasting_data.py.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch

from gradkeeper.torch_private import SavedStorage, made_at, saved_storages, storage_key
from gradkeeper.watcher.lasting_data import LastingData
from gradkeeper.watcher.loops import InnerLoop
from gradkeeper.watcher.loss_graph import is_scaled, nodes_of

BatchSource = InnerLoop | str
"""What brings batches: a loop, or a loader by its name."""
BEYOND_DOUBT = 6
"""So many batches in a row that share nothing, and nobody looks any more."""


class HeldByGraph(NamedTuple):
    """What the graph of a loss holds."""

    parameters: frozenset[int]
    storages: dict[int, SavedStorage]
    begun: int
    """When the first of its nodes was made."""
    seen: int
    """When it was looked at, its backward being about to run."""


class InnerBatches:
    def __init__(self) -> None:
        self._before: dict[object, HeldByGraph] = {}
        """By line: of the backward before."""
        self._apart: dict[BatchSource, int] = {}
        """How often a loop's rounds shared nothing; -1 once they did."""

    def first(self, line: object, losses: list[torch.Tensor]) -> None:
        """A backward whose loop has not gone round since the one before it."""
        self._before[line] = _held(losses, set())

    def another(
        self,
        source: BatchSource,
        line: object,
        losses: list[torch.Tensor],
        constant: set[int],
        lasting: Callable[[], list[LastingData]] = list,
    ) -> bool:
        """Whether a round of an inner loop has brought another batch. `constant`: storages that
        belong to modules, not to data; `lasting`: data that was there before the loop around."""
        apart = self._apart.get(source, 0)
        before = self._before.get(line)
        if apart < 0:
            return False
        now = self._before[line] = _held(losses, constant)
        if before is None or not now.storages:
            return False
        shares = now.storages.keys() & before.storages.keys() - constant
        shares = shares and _that_are_no_rows(shares, now, before, lasting())
        if shares or now.begun < before.seen or now.parameters != before.parameters:
            self._apart[source] = -1
            self._before.pop(line)
            return False
        self._apart[source] = apart + 1
        return True

    def is_beyond_doubt(self, source: BatchSource) -> bool:
        return self._apart.get(source, 0) >= BEYOND_DOUBT

    def are_of_one_batch(self, source: BatchSource) -> bool:
        return self._apart.get(source, 0) < 0

    def forget(self, line: object) -> None:
        self._before.pop(line, None)


def _that_are_no_rows(
    storages: set[int], now: HeldByGraph, before: HeldByGraph, lasting: list[LastingData]
) -> set[int]:
    """Of these storages, those of which the two losses have more than rows of a dataset."""
    return {
        key
        for key in storages
        if not any(
            data.storage == key
            and data.has_as_rows(now.storages[key].extent, before.storages[key].extent)
            for data in lasting
        )
    }


def _held(losses: list[torch.Tensor], constant: set[int]) -> HeldByGraph:
    parameters: set[int] = set()
    own: set[int] = set(constant)
    storages: dict[int, SavedStorage] = {}
    seen = begun = _now()
    for node in nodes_of(losses):
        if type(node).__name__ == "AccumulateGrad":
            parameters.add(id(node.variable))
            own.add(storage_key(node.variable))
            continue
        begun = min(begun, made_at(node))
        for key, storage in () if is_scaled(node) else saved_storages(node).items():
            storages.setdefault(key, storage).widen(storage)
    kept = {key: storage for key, storage in storages.items() if key not in own}
    return HeldByGraph(frozenset(parameters), kept, begun, seen)


def _now() -> int:
    with torch.enable_grad():
        return made_at(torch.ones((), requires_grad=True).neg().grad_fn)
