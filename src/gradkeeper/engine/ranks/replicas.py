"""Whether ranks that should hold the same weights do: looked at after the first steps, then ever
more rarely, and when a loop ends."""

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from gradkeeper.engine.journal import Journal
from gradkeeper.engine.ranks.rendezvous import RollCall
from gradkeeper.model import events as ev
from gradkeeper.replicas import Sums, first_difference, is_due, rounding_of, sums_of
from gradkeeper.torch_private import ranks_with_the_same_shard

if TYPE_CHECKING:
    from gradkeeper.engine.owner import Owner


class ReplicaCheck:
    def __init__(self, roll: RollCall, journal: Journal, *, alike: bool) -> None:
        """`alike`: each rank holds all weights. Otherwise only copies of a shard are alike."""
        self._roll = roll
        self._everybody = tuple(range(roll.size)) if alike else ()
        self._journal = journal
        self._equal: dict[str, int] = {}
        """By owner: the last step after which nobody differed."""
        self._looked: dict[str, int] = {}
        self._last: Any = None
        """The last call's tensors: not let go of by gloo's thread, as those of the roll."""

    def stepped(self, owner: "Owner") -> None:
        """All ranks have taken a step."""
        if is_due(owner.steps):
            self._look(owner)

    def ended(self, owner: "Owner") -> None:
        """All ranks have left a loop, which had its last step."""
        if owner.steps and self._looked.get(owner.name) != owner.steps:
            self._look(owner)

    def _look(self, owner: "Owner") -> None:
        self._looked[owner.name] = owner.steps
        held = [parameter for parameter in owner.parameters if parameter.layout is torch.strided]
        if not held:
            return
        ranks = [
            ranks_with_the_same_shard(parameter) if _is_sharded(parameter) else self._everybody
            for parameter in held
        ]
        told = self._gathered(held)
        rows = [
            (rounding_of(parameter), [(rank, told[rank][place]) for rank in ranks[place]])
            for place, parameter in enumerate(held)
        ]
        found = first_difference(rows)
        facts: dict[str, Any] = {}
        if found is not None:
            facts = {"parameter": _name(owner, held[found.parameter]), "differing": found.ranks}
        self._journal.write(
            ev.Replicas,
            optimizer=owner.name,
            step=owner.steps,
            world=self._roll.size,
            equal=self._equal.get(owner.name),
            **facts,
        )
        if found is None:
            self._equal[owner.name] = owner.steps

    def _gathered(self, held: list[Tensor]) -> list[list[Sums]]:
        """By rank."""
        mine = torch.tensor(sums_of(held), dtype=torch.float64)
        heard = [torch.empty_like(mine) for _ in range(self._roll.size)]
        self._last = (mine, heard)
        try:
            dist.all_gather(heard, mine, group=self._roll.group())
        except RuntimeError as error:
            raise self._roll.lost(error) from error
        return [[Sums(*row) for row in table.tolist()] for table in heard]


def _is_sharded(parameter: Tensor) -> bool:
    return hasattr(parameter, "placements")


def _name(owner: "Owner", parameter: Tensor) -> str:
    named = owner.model.named_parameters()
    return next(
        (name for name, candidate in named if candidate is parameter), f"tensor{parameter.shape}"
    )
