"""A window of one is the five-line loop, bit for bit."""

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.utils.data import DataLoader, Dataset

from tests.engine.problems import (
    classifier,
    credit_all,
    engine_of,
    five_lines,
    loader,
    rows,
    same,
)

Build = Callable[[Iterable[nn.Parameter]], Optimizer]

BUILDS: dict[str, Build] = {
    "sgd": lambda p: SGD(p, lr=0.1),
    "momentum": lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: AdamW(p, lr=0.01),
    "foreach": lambda p: Adam(p, lr=0.01, foreach=True),
    "fused": lambda p: AdamW(p, lr=0.01, fused=True),
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_windows_of_one_equal_the_five_line_loop_bitwise(build: Build) -> None:
    batches = loader(shuffle=True)
    expected = five_lines(batches, build, epochs=3, dropout=0.3)

    model = classifier(dropout=0.3)
    engine = engine_of(model, build)
    torch.manual_seed(7)
    for window in engine.windows(batches, size=1, epochs=3):
        with window:
            credit_all(window, model)

    assert same(model, expected)
    assert window.step == 18


def test_the_loss_and_the_norm_are_those_of_the_loop() -> None:
    x, y = rows(8)
    model = classifier()
    loss = cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.get_total_norm(p.grad for p in model.parameters() if p.grad is not None)

    other = classifier()
    with engine_of(other).window() as window:
        window.backward(cross_entropy(other(x), y), weight=8)

    assert window.loss == loss.item()
    assert window.grad_norm == norm.item()


class Noisy(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Draws in the main process: reading a batch too early changes the bits of all that follow."""

    def __init__(self) -> None:
        self.x, self.y = rows(23)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[index] + torch.randn(6), self.y[index]


def test_a_dataset_that_draws_random_numbers_is_read_when_the_loop_would_read_it() -> None:
    batches = DataLoader(Noisy(), batch_size=4, shuffle=True)
    expected = five_lines(batches, epochs=2, dropout=0.3)

    model = classifier(dropout=0.3)
    engine = engine_of(model)
    torch.manual_seed(7)
    for window in engine.windows(batches, size=1, epochs=2):
        with window:
            credit_all(window, model)

    assert same(model, expected)


def test_windows_of_four_equal_the_divided_loop_bitwise_with_clipping() -> None:
    batches = list(loader(32))
    by_hand = classifier()
    optimizer = SGD(by_hand.parameters(), lr=0.1)
    for place, (x, y) in enumerate(batches):
        (cross_entropy(by_hand(x), y) / 4).backward()
        if place % 4 == 3:
            nn.utils.clip_grad_norm_(by_hand.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()

    from gradkeeper.engine import Engine

    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), clip_norm=0.1)
    for window in engine.windows(batches, size=4):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y))

    assert same(model, by_hand)
