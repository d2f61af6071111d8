"""DistributedDataParallel as it can be set up: each against one process and one big batch."""

from typing import Any

import pytest
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from gradkeeper.engine import Engine, SetupError
from tests.engine.problems import classifier, distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import big_batches, credit_all, micro_batches_of, weights_of

UNEVEN = [[3, 1, 4, 2, 5], [2, 2, 6, 1, 1, 3]]


def train(rank: int, options: dict[str, Any], sync: str | None) -> list[Tensor]:
    model = DistributedDataParallel(classifier(), **options)
    engine = Engine(model, plain_sgd(model.parameters()), progress=False, sync=sync)  # type: ignore[arg-type]
    for window in engine.windows(micro_batches_of(rank, UNEVEN), size=3):
        with window:
            credit_all(window, model)
    return weights_of(model)


@pytest.mark.parametrize("sync", [None, "every"])
@pytest.mark.parametrize(
    "options",
    [
        {"static_graph": True},
        {"find_unused_parameters": True},
        {"gradient_as_bucket_view": True},
        {"bucket_cap_mb": 0.0001},
    ],
    ids=str,
)
def test_a_step_is_that_of_one_big_batch(
    two_ranks: Pool, options: dict[str, Any], sync: str | None
) -> None:
    expected = big_batches(UNEVEN, 3)

    found = two_ranks.run(train, options, sync)

    assert all(distance(one, expected) <= 1e-6 for one in found)


def refused(rank: int) -> str:
    with pytest.raises(SetupError) as told:
        train(rank, {"static_graph": True}, "last")
    return str(told.value)


def test_a_static_graph_cannot_wait_with_its_first_exchange(two_ranks: Pool) -> None:
    for told in two_ranks.run(refused):
        assert 'use sync="every" or leave static_graph out' in told
