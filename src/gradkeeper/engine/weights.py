"""How much each loss of a window weighs. Plain numbers while weights are known on the host.

Each weight enters relative to the window's first non-zero one: item counts in the thousands would
overflow fp16, and a window of one loss stays bit for bit the loss itself.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gradkeeper.engine.errors import WeightError

Weight = float | Tensor
Factor = float | Tensor


@dataclass(slots=True)
class Tally:
    """The weights counted so far; all of them were known on the host."""

    first: float = 0.0
    """The first one that is not zero: the unit of the others."""
    total: float = 0.0
    last: float = 0.0
    """Of the last counted call; a further loss over the same items takes it."""

    def count(self, weight: float) -> None:
        self.last = weight
        self.total += weight
        if not self.first:
            self.first = weight

    @property
    def mean_factor(self) -> float:
        """What a mean over the last weight's items is multiplied by before its backward."""
        return self.last / self.first if self.last else 0.0

    @property
    def sum_factor(self) -> float:
        """The same, for a sum over those items."""
        return 1 / self.first if self.last else 0.0

    @property
    def scale(self) -> float:
        """What the summed gradients are multiplied by in the end."""
        return self.first / self.total

    def settled(self, norm: Tensor) -> "tuple[float, Tally]":
        """The norm and the weights as numbers: the window's one wait for the device."""
        return norm.item(), self


@dataclass(slots=True)
class DeviceTally:
    """The weights counted so far; some live on a device, and are not waited for until the end."""

    first: Tensor
    total: Tensor
    last: Tensor
    least: Tensor
    """So that a negative weight is found at the end."""

    @classmethod
    def following(cls, tally: Tally, device: torch.device) -> "DeviceTally":
        numbers = (tally.first, tally.total, tally.last, 0.0)
        return cls(*(torch.full((), number, device=device) for number in numbers))

    def count(self, weight: Weight) -> None:
        known = torch.as_tensor(weight, dtype=torch.float32).detach()
        self.last = known.to(self.total.device, non_blocking=True)
        self.total = self.total + self.last
        self.least = torch.minimum(self.least, self.last)
        self.first = torch.where(self.first == 0, self.last, self.first)

    @property
    def mean_factor(self) -> Tensor:
        return torch.where(self.last == 0, self.last, self.last / self.first)

    @property
    def sum_factor(self) -> Tensor:
        return torch.where(self.last == 0, self.last, 1 / self.first)

    def settled(self, norm: Tensor) -> tuple[float, Tally]:
        numbers = [norm.to(self.total), self.first, self.total, self.last, self.least]
        length, first, total, last, least = torch.stack(numbers).tolist()
        if least < 0 or not math.isfinite(total):
            raise WeightError(f"the weights of this window add up to {total}, the least is {least}")
        return length, Tally(first, total, last)


Weights = Tally | DeviceTally


def counted(weights: Weights, weight: Weight) -> Weights:
    """One more weight; from the first one that lives on a device, the tally lives there too."""
    if isinstance(weight, Tensor) and isinstance(weights, Tally):
        weights = DeviceTally.following(weights, weight.device)
    weights.count(weight)  # type: ignore[arg-type]
    return weights


def checked(weight: object) -> Weight:
    """The weight as a number if the host knows it, else the tensor; refuses what weighs nothing."""
    if isinstance(weight, Tensor):
        if weight.dim() != 0:
            raise WeightError(f"a weight is a number or a 0-dim tensor, not {_shape(weight)}")
        weight = weight.detach()
        if weight.device.type != "cpu":
            return weight
    try:
        number = float(weight)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise WeightError(f"a weight is a number or a 0-dim tensor, not {weight!r}") from None
    if number >= 0 and math.isfinite(number):
        return number
    raise WeightError(f"a weight is a finite number of items, 0 or more, not {number}")


def _shape(tensor: Tensor) -> str:
    return f"a tensor of shape {tuple(tensor.shape)}"
