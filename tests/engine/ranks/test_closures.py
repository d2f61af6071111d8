"""Optimizers that evaluate the loss themselves, on several ranks: all evaluate as often."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import LBFGS

from gradkeeper.engine import Engine, Window, WindowError
from tests.engine.problems import Pair, classifier, distance
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import credit_all, micro_batches_of, weights_of, wrapped

EVEN = [[3] * 4, [3] * 4]
UNEVEN = [[3] * 4, [3] * 3]


def by_lbfgs(rank: int) -> list[Tensor]:
    model = wrapped("ddp")
    engine = Engine(model, LBFGS(model.parameters(), max_iter=4), progress=False)
    for window in engine.windows(micro_batches_of(rank, EVEN), size=2):
        with window:
            window.closure(lambda: credit_all(window, model))  # noqa: B023
    return weights_of(model)


def test_closures_see_all_ranks(two_ranks: Pool) -> None:
    model = classifier()
    engine = Engine(model, LBFGS(model.parameters(), max_iter=4), progress=False)
    shares = [micro_batches_of(rank, EVEN) for rank in range(2)]
    for start in (0, 2):
        with engine.window() as window:

            @window.closure
            def evaluate() -> None:
                for share in shares:
                    for x, y in share[start : start + 2]:  # noqa: B023
                        window.backward(cross_entropy(model(x), y), weight=len(y))

    one, other = two_ranks.run(by_lbfgs)

    assert distance(one, weights_of(model)) <= 1e-4
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


class Flow:
    """Batches without a length."""

    def __init__(self, batches: list[Pair]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Pair]:
        yield from self._batches


def outcomes(loader: Any, evaluate: Any) -> tuple[list[str | None], list[Tensor]]:
    """Up to the first window without a step: why it took none. And the weights."""
    model = wrapped("ddp")
    engine = Engine(model, LBFGS(model.parameters(), max_iter=4), progress=False)
    told: list[str | None] = []
    for window in engine.windows(loader, size=2):
        try:
            with window:
                window.closure(lambda: evaluate(window, model))  # noqa: B023
        except (WindowError, ValueError) as error:
            told.append(f"{type(error).__name__}: {error}")
            break
        told.append(window.reason)
        if not window.stepped:
            break
    return told, weights_of(model)


def running_out(rank: int, length: bool) -> tuple[list[str | None], list[Tensor]]:
    """In the second window, rank 1 has one micro-batch only."""
    batches = micro_batches_of(rank, UNEVEN)
    return outcomes(batches if length else Flow(batches), credit_all)


def test_a_batch_that_would_be_evaluated_again_is_refused_on_all_ranks(two_ranks: Pool) -> None:
    (zero, weights), (one, others) = two_ranks.run(running_out, True)

    assert zero == one
    assert [told is None for told in zero] == [True, False]
    assert str(zero[1]).startswith("WindowError: the loader of a rank runs out in this window")
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


def test_without_a_length_the_rank_that_runs_out_tells_the_others(two_ranks: Pool) -> None:
    (zero, weights), (one, others) = two_ranks.run(running_out, False)

    assert zero[0] is one[0] is None
    assert str(one[1]).startswith("WindowError: the loader of a rank runs out in this window")
    assert str(zero[1]).startswith("rank 1 raised WindowError: the loader of a rank runs out")
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


def failing(rank: int, evaluation: int) -> tuple[list[str | None], list[Tensor]]:
    """At that evaluation of the first window, the closure of rank 1 fails."""
    count = 0

    def evaluate(window: Window, model: nn.Module) -> None:
        nonlocal count
        count += 1
        if rank == 1 and count == evaluation:
            raise ValueError("bad batch")
        credit_all(window, model)

    return outcomes(micro_batches_of(rank, EVEN), evaluate)


@pytest.mark.parametrize("evaluation", [1, 3])
def test_a_closure_that_fails_on_one_rank_discards_the_window_of_all(
    two_ranks: Pool, evaluation: int
) -> None:
    (zero, weights), (one, others) = two_ranks.run(failing, evaluation)

    assert one == ["ValueError: bad batch"]
    assert str(zero[0]).startswith("rank 1 raised ValueError: bad batch (")
    assert distance(weights, weights_of(classifier())) == distance(others, weights) == 0
