"""Small problems to train on, and the loops that the engine is compared with."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Optimizer
from torch.utils.data import DataLoader, TensorDataset

from gradkeeper.engine import Engine, Window

Pair = tuple[Tensor, Tensor]
Build = Callable[[Iterable[nn.Parameter]], Optimizer]


def plain_sgd(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return SGD(parameters, lr=0.1)


def classifier(dtype: torch.dtype = torch.float32, *, dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 3))
    return layers.to(dtype)


def rows(count: int, dtype: torch.dtype = torch.float32) -> Pair:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(count, 6, generator=generator, dtype=dtype)
    y = torch.randint(0, 3, (count,), generator=generator)
    return x, y


def loader(count: int = 23, *, batch_size: int = 4, shuffle: bool = False) -> DataLoader[Pair]:
    dataset: Any = TensorDataset(*rows(count))
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle)


def parts_of(pair: Pair, sizes: list[int]) -> list[Pair]:
    x, y = pair
    return list(zip(x.split(sizes), y.split(sizes), strict=True))


def weights_of(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def distance(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest error, relative to the largest number."""
    error = max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))
    return error / max(float(b.abs().max()) for b in expected)


def one_big_batch(pair: Pair, *, dtype: torch.dtype = torch.float32) -> nn.Module:
    model = classifier(dtype)
    optimizer = plain_sgd(model.parameters())
    cross_entropy(model(pair[0]), pair[1]).backward()
    optimizer.step()
    return model


def five_lines(
    batches: Iterable[Pair], build: Build = plain_sgd, *, epochs: int = 1, dropout: float = 0.0
) -> nn.Module:
    """Zero, forward, loss, backward, step."""
    model = classifier(dropout=dropout)
    optimizer = build(model.parameters())
    torch.manual_seed(7)
    for _ in range(epochs):
        for x, y in batches:
            optimizer.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    return model


def credit_all(window: Window, model: nn.Module) -> None:
    for x, y in window:
        window.backward(cross_entropy(model(x), y), weight=len(y))


def engine_of(model: nn.Module, build: Build = plain_sgd) -> Engine:
    return Engine(model, build(model.parameters()), progress=False)
