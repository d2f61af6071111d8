"""What a gradient looked like when it was last seen, without keeping it alive.

A weak reference tells objects apart (addresses are reused), the version counter tells whether one
was written to. Neither sees a write through `.data`: that takes a look at values.
"""

import math
import weakref
from collections.abc import Callable
from typing import Any

import torch

# Past a property that may lie on torch.nn.Parameter (reads.py).
_descriptor: Any = torch.Tensor.grad
gradient_of: Callable[[torch.Tensor], torch.Tensor | None] = _descriptor.__get__

SAME, CLEARED, WRITTEN, REPLACED = "same", "cleared", "written", "replaced"

MOST_SAMPLED = 65_536
"""Values of a gradient that are copied, to tell later whether it was changed."""
# What follows a gradient this closely is that gradient, scaled.
COLLINEAR = 1e-3


class Mark:
    """One parameter, its gradient and both versions as last seen."""

    __slots__ = ("__weakref__", "grad", "known", "parameter", "version", "weight_version")

    def __init__(self, parameter: torch.Tensor) -> None:
        self.parameter: Callable[[], torch.Tensor | None] = weakref.ref(parameter)
        self.grad: weakref.ref[torch.Tensor] | None = None
        self.version = 0
        self.weight_version = 0
        self.known = False
        self.note()

    def note(self) -> None:
        """Takes what is there now as seen."""
        parameter = self.parameter()
        if parameter is None:
            return
        grad = gradient_of(parameter)
        self.known = True
        self.weight_version = parameter._version
        if grad is None:
            self.grad = None
        else:
            self.grad = weakref.ref(grad)
            self.version = grad._version

    def verdict(self) -> str:
        """What has happened to the gradient since it was last seen."""
        parameter = self.parameter()
        if parameter is None or not self.known:
            return SAME
        grad = gradient_of(parameter)
        if grad is None:
            return SAME if self.grad is None else CLEARED
        if self.grad is None or self.grad() is not grad:
            return REPLACED
        return SAME if grad._version == self.version else WRITTEN

    def is_as_seen(self, weight: bool) -> bool:
        """Whether `verdict` is the same (and, with `weight`, not `moved`): in one, for speed."""
        parameter = self.parameter()
        if parameter is None or not self.known:
            return True
        if weight and parameter._version != self.weight_version:
            return False
        grad = gradient_of(parameter)
        if grad is None:
            return self.grad is None
        if self.grad is None or self.grad() is not grad:
            return False
        return bool(grad._version == self.version)

    def is_credited(self) -> bool:
        """Whether a backward has added to the gradient since it was last seen."""
        parameter = self.parameter()
        grad = None if parameter is None or not self.known else gradient_of(parameter)
        if grad is None:
            return False
        if self.grad is None or self.grad() is not grad or grad._version != self.version:
            return True
        return is_sharded(parameter)

    def grad_now(self) -> torch.Tensor | None:
        parameter = self.parameter()
        return None if parameter is None else gradient_of(parameter)

    def note_weight(self) -> None:
        parameter = self.parameter()
        if parameter is not None:
            self.weight_version = parameter._version

    def moved(self) -> bool:
        parameter = self.parameter()
        return parameter is not None and self.known and parameter._version != self.weight_version


def is_sharded(tensor: object) -> bool:
    """A DTensor: its version does not move when FSDP2 accumulates into it."""
    return hasattr(tensor, "_local_tensor")


def grads_of(marks: list[Mark]) -> list[torch.Tensor]:
    grads = [mark.grad_now() for mark in marks]
    return [grad for grad in grads if grad is not None]


def _local(tensor: Any) -> torch.Tensor:
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


def all_zero(marks: list[Mark]) -> bool:
    """Whether these gradients hold nothing but zeros. Reads values: the cold path only."""
    grads = grads_of(marks)
    with torch.no_grad():
        return bool(grads) and not any(_nonzero(_local(grad)) for grad in grads)


def _nonzero(grad: torch.Tensor) -> bool:
    if grad.is_sparse:
        return grad._nnz() > 0 and bool(grad._values().any())
    return bool(grad.any())


def sample_of(grad: torch.Tensor | None) -> torch.Tensor | None:
    """A copy of the gradient's values, or of some from all over it."""
    if grad is None or grad.is_sparse:
        return None
    flat = _local(grad).detach().reshape(-1)
    return flat[:: 1 + flat.numel() // MOST_SAMPLED].clone()


def is_another(now: torch.Tensor, before: torch.Tensor) -> bool:
    """Whether `now` is a new gradient: not what was there, and not that scaled or clipped.

    Reads values: the cold path only.
    """
    if now.shape != before.shape or now.dtype != before.dtype or now.device != before.device:
        return True
    if torch.allclose(now, before, rtol=0.0, atol=0.0, equal_nan=True):
        return False
    return now.numel() == 1 or not runs_along(now, before)


def runs_along(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether `one` is `other` times a positive number. Reads values: the cold path only."""
    move, slope = one.flatten().double(), other.flatten().double()
    length = float(slope @ slope)
    factor = float(move @ slope) / length if length else 0.0
    off = float((move - factor * slope).norm())
    return factor > 0 and off <= COLLINEAR * float(move.norm())


def all_finite(tensors: list[torch.Tensor]) -> bool:
    """Whether these hold neither NaN nor inf. Reads values: the cold path only."""
    with torch.no_grad():
        return all(bool(_values(_local(one)).isfinite().all()) for one in tensors)


def norms_are_finite(norms: list[torch.Tensor]) -> bool:
    """Of those only that lie on the host: no device is waited for."""
    return all(math.isfinite(norm.item()) for norm in norms if norm.device.type == "cpu")


def _values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor._values() if tensor.is_sparse else tensor
