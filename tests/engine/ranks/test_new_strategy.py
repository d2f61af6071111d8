"""A strategy of one's own says what `Exchange` asks first, and nothing else: that is enough."""

from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from gradkeeper.engine import Engine
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.engine.ranks import ddp
from gradkeeper.engine.ranks.base import Exchange, Sync
from tests.engine.problems import classifier, distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import big_batches, credit_all, micro_batches_of, weights_of

UNEVEN = [[5, 1, 4, 2, 7, 3], [2, 2, 9, 1]]


class OnceAtTheEnd(Exchange):
    """Nobody wraps the model: gradients are averaged when a window ends."""

    copies = 0

    def __init__(self, parameters: list[Tensor]) -> None:
        self._parameters = parameters

    def open(self, planned: int | None, *, by_loader: bool) -> None:
        self.unsynced = self.exchanged = False

    def hand(self, *, last: bool) -> None:
        return

    @property
    def exchanging(self) -> bool:
        return False

    def credited(self) -> bool:
        self.unsynced = True
        return False

    def torn(self) -> None:
        return

    def leaves(self) -> list[Tensor]:
        return self._parameters

    def at_close(self) -> None:
        return

    def exchange(self, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        self.unsynced, self.exchanged = False, True

    def close(self) -> None:
        return


def exchange_of(owners: list[Owner], sync: Sync | None) -> OnceAtTheEnd:
    return OnceAtTheEnd([p for owner in owners for p in parameters_of(owner.optimizer)])


def trained(rank: int, size: int) -> tuple[list[Tensor], list[Any]]:
    model = classifier()
    # In its place in setup.py, which names the strategies.
    with patch.object(ddp, "exchange_of", exchange_of):
        engine = Engine(model, plain_sgd(model.parameters()), progress=False)
    told = []
    for window in engine.windows(micro_batches_of(rank, UNEVEN), size=size, epochs=2):
        with window:
            credit_all(window, model)
        told.append((window.stepped, window.loss, window.grad_norm))
    return weights_of(model), told


@pytest.mark.parametrize("size", [1, 4])
def test_a_strategy_that_says_no_more_than_it_must_is_one_big_batch(
    two_ranks: Pool, size: int
) -> None:
    expected = big_batches(UNEVEN, size, epochs=2)

    (first, told), (second, told_there) = two_ranks.run(trained, size)

    assert distance(first, expected) <= 1e-6
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert told == told_there
    assert all(stepped for stepped, _, _ in told)
