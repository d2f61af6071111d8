"""The last touch before a step: normalise and clip, in one multiplication where that can be."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from torch import Tensor
from torch.nn.utils import clip_grad_value_, clip_grads_with_norm_

from gradkeeper.engine.gradients import Norm, clamp, gradients, multiply, sharded


class Touch(Enum):
    """What was done to the gradients, as one would see it from outside."""

    NONE = "none"
    CLIPPED = "clipped"
    NORMALISED = "normalised, and clipped with it if need be"


class Clip(Protocol):
    @property
    def bound(self) -> float | None: ...

    def finish(self, parameters: list[Tensor], scale: float, norm: Norm) -> Touch:
        """Multiplies by `scale` and clips; `norm` is that of the gradients before both."""


@dataclass(frozen=True, slots=True)
class NoClip:
    bound: None = None

    def finish(self, parameters: list[Tensor], scale: float, norm: Norm) -> Touch:
        # Not multiplied by 1: a window of one loss is then the five-line loop, in time as in bits.
        if scale == 1.0:
            return Touch.NONE
        multiply(gradients(parameters), scale)
        return Touch.NORMALISED


@dataclass(frozen=True, slots=True)
class ClipNorm:
    bound: float

    def finish(self, parameters: list[Tensor], scale: float, norm: Norm) -> Touch:
        if norm.length * scale <= self.bound:
            return NoClip().finish(parameters, scale, norm)
        if scale == 1.0 and not sharded(parameters):
            clip_grads_with_norm_(parameters, self.bound, norm.tensor)
            return Touch.CLIPPED
        # In tensors and in this order, so that the bits are those of clip_grad_norm_.
        multiply(gradients(parameters), self.bound / (norm.tensor * scale + 1e-6) * scale)
        return Touch.NORMALISED


@dataclass(frozen=True, slots=True)
class ClipValue:
    bound: float

    def finish(self, parameters: list[Tensor], scale: float, norm: Norm) -> Touch:
        held = gradients(parameters)
        if scale == 1.0 and not (sharded(parameters) or any(one.is_sparse for one in held)):
            clip_grad_value_(parameters, self.bound)
            return Touch.CLIPPED
        multiply(held, scale)
        clamp(held, self.bound)
        return Touch.NORMALISED
