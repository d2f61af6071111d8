"""The data that the user's variables hold and that was there before a round of the loop around.

The rows of a dataset share its memory, as the time steps of a batch share that of the batch. The
dataset is in a variable that the loop leaves alone, the batch in one that each round sets anew.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from gradkeeper.torch_private import extent_of, storage_key
from gradkeeper.watcher.loops import Rounds, SetInLoop, set_in
from gradkeeper.watcher.search import attributes_of, variables_of

Extent = tuple[int, int]


class LastingData(NamedTuple):
    """A tensor: the storage it lies in, from where to where, how long a row of it is, in bytes."""

    storage: int
    begin: int
    end: int
    row: int

    def has_as_rows(self, part: Extent, other: Extent) -> bool:
        """Whether the two are of it, and of different rows."""
        (begin, end), (its_begin, its_end) = sorted((part, other))
        if begin < self.begin or its_end > self.end:
            return False
        return (its_begin - self.begin) // self.row > (end - 1 - self.begin) // self.row


def lasting_data(rounds: Rounds) -> list[LastingData]:
    standing = rounds.standing()
    if standing is None:
        return []
    frames, depth, loop = standing
    anew = set_in(frames[depth].f_code, loop, frames[depth].f_globals)
    modules = {id(frame.f_globals): frame.f_globals for frame in frames}
    return [
        data
        for variables in (*map(variables_of, frames[: depth + 1]), *modules.values())
        for name, value in list(variables.items())
        if name not in anew.variables
        for data in _tensors_of(value, anew)
    ]


def _tensors_of(value: object, anew: SetInLoop) -> Iterator[LastingData]:
    """That a variable holds, alone or with others, or an object that it holds."""
    yield from _tensors_in(value)
    for name, held in list(attributes_of(value).items()):
        if name not in anew.attributes:
            yield from _tensors_in(held)


def _tensors_in(value: Any) -> Iterator[LastingData]:
    for tensor in value if type(value) is tuple else (value,):
        # By type, not isinstance: that may run code of lazy proxies.
        if type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.dim():
            begin, end = extent_of(tensor)
            row = tensor.stride(0) * tensor.element_size()
            if 0 < end - begin <= row * len(tensor):  # else rows lie one inside the other
                yield LastingData(storage_key(tensor), begin, end, row)
