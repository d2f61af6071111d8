"""However items fall on ranks and micro-batches, a step is that of one big batch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from gradkeeper.engine import Engine
from tests.engine.problems import Pair, classifier, distance, parts_of, plain_sgd, rows
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
FOUR = [[2, 6], [3, 1, 4, 1, 5], [1, 1, 7], [4]]
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


@pytest.mark.parametrize("sync", SYNCS)
@pytest.mark.parametrize("kind", KINDS)
def test_four_ranks_are_too(four_ranks: Pool, kind: str, sync: str) -> None:
    expected = big_batches(FOUR, 2, epochs=2)

    found = four_ranks.run(trained_by, kind, FOUR, 2, sync)

    assert all(distance(one, expected) <= 1e-6 for one in found)


def shares_of(ranks: int) -> list[list[Pair]]:
    """The same two windows for any number of ranks, dealt out to them; the second is short."""
    windows = ([5, 1, 4, 2, 7, 3, 2, 1], [9, 1, 2, 3, 1])
    parts = parts_of(rows(sum(map(sum, windows))), [count for one in windows for count in one])
    return [parts[:8][rank::ranks] + parts[8:][rank::ranks] for rank in range(ranks)]


def trained_on_share(rank: int, kind: str, ranks: int) -> tuple[list[Tensor], list[Any]]:
    model = wrapped(kind) if ranks > 1 else classifier()
    engine = Engine(model, plain_sgd(model.parameters()), clip_norm=0.1, progress=False)
    told = []
    for window in engine.windows(shares_of(ranks)[rank], size=8 // ranks, epochs=2):
        with window:
            credit_all(window, model)
        told.append((window.loss, window.grad_norm, window.weight))
    return weights_of(model), told


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_ranks_does_not_matter(two_ranks: Pool, four_ranks: Pool, kind: str) -> None:
    weights, told = trained_on_share(0, kind, 1)

    found = two_ranks.run(trained_on_share, kind, 2) + four_ranks.run(trained_on_share, kind, 4)

    for others, told_there in found:
        assert distance(others, weights) <= 1e-6
        torch.testing.assert_close(told_there, told, atol=1e-6, rtol=1e-6)
