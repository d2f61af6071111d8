"""The ranks as those who write one checkpoint together: a channel of their own for plain values.

A process group of its own, because a save that is written behind speaks while the model trains.
"""

import json
from typing import Any

import torch
import torch.distributed as dist

from gradkeeper.engine.ranks.roll import Roll, group_of_its_own


class RankPeers:
    def __init__(self, roll: Roll) -> None:
        self.rank = roll.rank
        self.size = roll.size
        self._roll = roll
        self._group = group_of_its_own(roll.news.timeout)
        self._last: Any = None
        """The last call's tensors: not let go of by gloo's thread, as those of the roll."""

    def gather(self, value: Any) -> list[Any]:
        mine = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        try:
            return [json.loads(bytes(one.tolist())) for one in self._gathered(mine)]
        except RuntimeError as error:
            raise self._roll.lost(error) from error

    def _gathered(self, mine: torch.Tensor) -> list[torch.Tensor]:
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        size = torch.tensor([len(mine)])
        dist.all_gather(sizes, size, group=self._group())
        counts = [int(one) for one in sizes]
        padded = torch.zeros(max(counts), dtype=torch.uint8)
        padded[: len(mine)] = mine
        heard = [torch.empty_like(padded) for _ in counts]
        self._last = (sizes, size, padded, heard)
        dist.all_gather(heard, padded, group=self._group())
        return [one[:count] for one, count in zip(heard, counts, strict=True)]
