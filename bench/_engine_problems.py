"""What the loops train: a tiny MLP, one of sixty tensors, a small transformer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Problem:
    name: str
    build: Callable[[], nn.Module]
    x: Tensor
    y: Tensor
    batch: int

    def model(self) -> nn.Module:
        torch.manual_seed(1)
        return self.build()

    def dataset(self) -> Any:
        return TensorDataset(self.x, self.y)

    def loader(self) -> DataLoader[Pair]:
        return DataLoader(self.dataset(), batch_size=self.batch)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(model(x), y)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.out = nn.Linear(128, 64)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(self.layers(self.table(x)).mean(dim=1))
        return scores


def tiny(batches: int = 200) -> Problem:
    x = torch.randn(batches * 16, 32)
    y = torch.randint(0, 10, (batches * 16,))
    layers = lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))  # noqa: E731
    return Problem("tiny MLP", layers, x, y, 16)


def deep(batches: int = 80) -> Problem:
    def build() -> nn.Module:
        hidden = [part for _ in range(28) for part in (nn.Linear(64, 64), nn.ReLU())]
        return nn.Sequential(nn.Linear(32, 64), *hidden, nn.Linear(64, 10))

    x = torch.randn(batches * 16, 32)
    y = torch.randint(0, 10, (batches * 16,))
    return Problem("60-tensor MLP", build, x, y, 16)


def transformer(batches: int = 12) -> Problem:
    x = torch.randint(0, 64, (batches * 8, 48))
    y = torch.randint(0, 64, (batches * 8,))
    return Problem("small transformer", Transformer, x, y, 8)


PROBLEMS: dict[str, Callable[..., Problem]] = {
    "tiny": tiny,
    "deep": deep,
    "transformer": transformer,
}
