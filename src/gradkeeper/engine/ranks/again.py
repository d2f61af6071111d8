"""A micro-batch that is handed out again must leave no trace: buffers and RNG go back."""

import random
import sys
from typing import Any

import torch
from torch import Tensor, nn


class Before:
    """Buffers and random numbers as they are now."""

    def __init__(self, models: list[nn.Module]) -> None:
        buffers = [buffer for model in models for buffer in model.buffers()]
        self._buffers: list[tuple[Tensor, Tensor]] = [(one, one.clone()) for one in buffers]
        self._python = random.getstate()
        numpy: Any = sys.modules.get("numpy")
        self._numpy = None if numpy is None else numpy.random.get_state()
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def restore(self) -> None:
        with torch.no_grad():
            for buffer, value in self._buffers:
                buffer.copy_(value)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        torch.set_rng_state(self._cpu)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
