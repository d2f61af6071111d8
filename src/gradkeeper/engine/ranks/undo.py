"""A micro-batch that is handed out again must leave no trace: buffers and RNG go back."""

import torch
from torch import Tensor, nn

from gradkeeper import rng


class Before:
    """Buffers and random numbers as they are now."""

    def __init__(self, models: list[nn.Module]) -> None:
        buffers = [buffer for model in models for buffer in model.buffers()]
        self._buffers: list[tuple[Tensor, Tensor]] = [(one, one.clone()) for one in buffers]
        self._rng = rng.state()

    def restore(self) -> None:
        with torch.no_grad():
            for buffer, value in self._buffers:
                buffer.copy_(value)
        rng.restore(self._rng)
