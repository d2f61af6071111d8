"""How much each loss of a window weighs, and what an open window knows beside its gradients."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from gradkeeper.engine.errors import LossError, WeightError
from gradkeeper.engine.gradients import NARROW

# Plain numbers while weights are known on the host.
#
# Each weight enters relative to the window's first non-zero one: item counts in the thousands would
# overflow fp16, and a window of one loss stays bit for bit the loss itself.


Weight = float | Tensor
LossFactor = float | Tensor


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


LossWeights = Tally | DeviceTally


def counted(tally: LossWeights, weight: Weight) -> LossWeights:
    """One more weight; from the first one that lives on a device, the tally lives there too."""
    if isinstance(weight, Tensor) and isinstance(tally, Tally):
        tally = DeviceTally.following(tally, weight.device)
    tally.count(weight)  # type: ignore[arg-type]
    return tally


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


# What an open window knows, beside the gradients themselves: named, plain, ready to be saved.


LossReduction = Literal["mean", "sum"]


@dataclass(slots=True)
class Pending:
    tally: LossWeights = field(default_factory=Tally)
    counted: int = 0
    """Backward calls that counted a weight, zero included."""
    credits: int = 0
    """Backward calls that reached the gradients."""
    loss: Tensor | None = None
    """The sum of the losses, each multiplied as it was for its backward."""
    torn: str | None = None
    """How a backward failed half-way: what is in the gradients then, nobody knows."""

    def weigh(
        self, loss: object, weight: object, reduction: LossReduction, *, counts: bool
    ) -> LossFactor:
        """Counts the weight, if it counts, and returns what the loss is multiplied by."""
        if reduction not in ("mean", "sum"):
            raise LossError(f"reduction is 'mean' or 'sum', not {reduction!r}")
        known = None if weight is None else checked(weight)
        if counts:
            known = 1.0 if known is None else known
        else:
            self._check_uncounted(known)
            known = self.tally.last
        if isinstance(known, Tensor) or known:
            # First: an error that is caught inside the block must leave no weight behind. A loss
            # of weight 0 may be anything, and is not looked at.
            check_loss(loss)
        if counts:
            self.tally = counted(self.tally, known)
            self.counted += 1
        return self.tally.mean_factor if reduction == "mean" else self.tally.sum_factor

    def _check_uncounted(self, weight: Weight | None) -> None:
        if not self.counted:
            raise LossError(
                "counts=False is for a further loss over the items of the call before, "
                "and this is the window's first call"
            )
        last = self.tally.last
        if isinstance(weight, float) and weight != last:
            raise WeightError(
                f"counts=False takes the weight of the call before, {last}, and this one says "
                f"{weight}: leave it out"
            )

    @property
    def on_host(self) -> bool:
        """Whether the loss can be read without waiting for a device."""
        return self.loss is not None and self.loss.device.type == "cpu"

    def mean_loss(self) -> float | None:
        if self.loss is None:
            return None
        if isinstance(self.tally, Tally):
            return self.loss.item() * self.tally.scale
        return (self.loss * self.tally.first / self.tally.total).item()

    def add_loss(self, loss: Tensor, factor: LossFactor) -> None:
        value = loss.detach()
        if value.dim():
            value = value.reshape(())
        if self.loss is None:
            self.loss = _share(value, factor)
        elif isinstance(factor, Tensor) or value.get_device() != self.loss.get_device():
            self.loss += _share(value, factor).to(self.loss.device)
        else:
            self.loss.add_(value, alpha=factor)


def _share(value: Tensor, factor: LossFactor) -> Tensor:
    """A tensor of its own, not the loss: what CUDA graphs return, their next run overwrites."""
    if value.dtype in NARROW:
        value = value.float()
    if isinstance(factor, Tensor):
        return value * factor.to(value)
    return value.clone() if factor == 1.0 else value * factor


def check_loss(loss: object) -> None:
    if not isinstance(loss, Tensor):
        raise LossError(f"a loss is a tensor, and this is {type(loss).__name__}")
    if loss.numel() != 1:
        raise LossError(f"a loss is one number, and this has shape {tuple(loss.shape)}: reduce it")
    if not loss.requires_grad:
        raise LossError(
            "this loss needs no gradient: it was computed under no_grad, detached, "
            "or from nothing that is trained"
        )
