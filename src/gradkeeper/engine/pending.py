"""What an open window knows, beside the gradients themselves: named, plain, ready to be saved."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from gradkeeper.engine.errors import LossError, WeightError
from gradkeeper.engine.gradients import NARROW
from gradkeeper.engine.weights import Factor, Tally, Weight, Weights, checked, counted

Reduction = Literal["mean", "sum"]


@dataclass(slots=True)
class Pending:
    weights: Weights = field(default_factory=Tally)
    counted: int = 0
    """Backward calls that counted a weight, zero included."""
    credits: int = 0
    """Backward calls that reached the gradients."""
    loss: Tensor | None = None
    """The sum of the losses, each multiplied as it was for its backward."""
    torn: str | None = None
    """How a backward failed half-way: what is in the gradients then, nobody knows."""

    def weigh(self, loss: object, weight: object, reduction: Reduction, *, counts: bool) -> Factor:
        """Counts the weight, if it counts, and returns what the loss is multiplied by."""
        if reduction not in ("mean", "sum"):
            raise LossError(f"reduction is 'mean' or 'sum', not {reduction!r}")
        known = None if weight is None else checked(weight)
        if counts:
            known = 1.0 if known is None else known
        else:
            self._check_uncounted(known)
            known = self.weights.last
        if isinstance(known, Tensor) or known:
            # First: an error that is caught inside the block must leave no weight behind. A loss
            # of weight 0 may be anything, and is not looked at.
            check_loss(loss)
        if counts:
            self.weights = counted(self.weights, known)
            self.counted += 1
        return self.weights.mean_factor if reduction == "mean" else self.weights.sum_factor

    def _check_uncounted(self, weight: Weight | None) -> None:
        if not self.counted:
            raise LossError(
                "counts=False is for a further loss over the items of the call before, "
                "and this is the window's first call"
            )
        last = self.weights.last
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
        if isinstance(self.weights, Tally):
            return self.loss.item() * self.weights.scale
        return (self.loss * self.weights.first / self.weights.total).item()

    def add_loss(self, loss: Tensor, factor: Factor) -> None:
        value = loss.detach()
        if value.dim():
            value = value.reshape(())
        if self.loss is None:
            self.loss = _share(value, factor)
        elif isinstance(factor, Tensor) or value.get_device() != self.loss.get_device():
            self.loss += _share(value, factor).to(self.loss.device)
        else:
            self.loss.add_(value, alpha=factor)


def _share(value: Tensor, factor: Factor) -> Tensor:
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
