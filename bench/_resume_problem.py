"""What every loop of bench/resume.py trains, and when it is stopped."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.utils.data import DataLoader, TensorDataset

SEED = 0
SIZE = 4  # micro-batches in a window
BATCH = 2
LENGTH = 20  # micro-batches in an epoch
EPOCHS = 3
RATE = 0.01

# In the second epoch, so that the order of batches depends on more than the seed.
BOUNDARY = LENGTH + 2 * SIZE
MID_WINDOW = BOUNDARY + 2


@dataclass(frozen=True)
class Phase:
    """One process: it may begin from what is in the folder, and may save there and die."""

    folder: Path
    resume: bool = False
    stop: int | None = None  # after so many micro-batches in all

    def ends_here(self, done: int) -> bool:
        return done == self.stop

    def die(self) -> None:
        """As a kill would: nothing is tidied up."""
        os._exit(0)


def dataset() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(LENGTH * BATCH, 8, generator=generator)
    y = torch.randn(LENGTH * BATCH, 1, generator=generator)
    return TensorDataset(x, y)


def loader(workers: int = 0) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(dataset(), batch_size=BATCH, shuffle=True, num_workers=workers)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Tanh(), nn.Linear(16, 1))


def optimizer_of(module: nn.Module) -> Optimizer:
    return AdamW(module.parameters(), lr=RATE)


def loss_of(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.mse_loss(module(x), y)


def weights_of(module: nn.Module) -> list[Tensor]:
    return [one.detach().clone() for one in module.parameters()]
