"""However items fall on ranks and micro-batches, a step is that of one big batch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from gradkeeper.engine import Engine
from tests.engine.problems import distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import (
    KINDS,
    big_batches,
    credit_all,
    micro_batches_of,
    weights_of,
    wrapped,
)

UNEVEN = [[5, 1, 4, 2, 7, 3], [2, 2, 9, 1]]
THREE = [[5, 1, 4], [2, 2, 9, 1, 3], [1]]
SYNCS = ("last", "every")


def trained(
    rank: int, kind: str, sizes: list[list[int]], size: int, **options: Any
) -> list[Tensor]:
    model = wrapped(kind)
    engine = Engine(model, plain_sgd(model.parameters()), progress=False, **options)
    for window in engine.windows(micro_batches_of(rank, sizes), size=size, epochs=2):
        with window:
            credit_all(window, model)
        assert window.stepped
    return weights_of(model)


def trained_by(rank: int, kind: str, sizes: list[list[int]], size: int, sync: str) -> list[Tensor]:
    return trained(rank, kind, sizes, size, sync=sync)


@pytest.mark.parametrize("sync", SYNCS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 3, 4])
def test_uneven_ranks_are_one_big_batch(two_ranks: Pool, kind: str, size: int, sync: str) -> None:
    expected = big_batches(UNEVEN, size, epochs=2)

    found = two_ranks.run(trained_by, kind, UNEVEN, size, sync)

    assert all(distance(one, expected) <= 1e-6 for one in found)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_three_ranks_are_too(three_ranks: Pool, kind: str) -> None:
    expected = big_batches(THREE, 2, epochs=2)

    found = three_ranks.run(trained_by, kind, THREE, 2, None)

    assert all(distance(one, expected) <= 1e-6 for one in found)
