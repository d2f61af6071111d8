"""FSDP2 as it can be set up: each against one process and one big batch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy

from gradkeeper.engine import Engine
from tests.engine.problems import distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import credit_all, micro_batches_of, weights_of

UNEVEN = [[3, 1, 4, 2, 5], [2, 2, 6, 1, 1, 3]]
CLIP = 0.1


class Branched(nn.Module):
    """Two heads over one body."""

    def __init__(self, *, one_head: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Linear(6, 8)
        self.heads = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 3)])
        self.one_head = one_head

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x).relu()
        first, second = self.heads
        scores: Tensor = first(hidden) if self.one_head else first(hidden) + second(hidden)
        return scores


def frozen() -> Branched:
    model = Branched()
    model.heads[1].requires_grad_(False)
    return model


def tied() -> Branched:
    model = Branched()
    model.heads[1].weight = model.heads[0].weight
    return model


def one_headed() -> Branched:
    return Branched(one_head=True)


def by_big_batches(build: Callable[[], nn.Module]) -> list[Tensor]:
    model = build()
    optimizer = plain_sgd(model.parameters())
    for start in (0, 3):
        parts = [
            one for rank in (0, 1) for one in micro_batches_of(rank, UNEVEN)[start : start + 3]
        ]
        optimizer.zero_grad()
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    return weights_of(model)


def train(
    rank: int, build: Callable[[], nn.Module], options: dict[str, Any], nested: bool, sync: str
) -> list[Tensor]:
    model = build()
    if nested:
        for module in (model.body, *model.heads):  # type: ignore[misc]
            fully_shard(module, **options)
    fully_shard(model, **options)
    optimizer = plain_sgd(model.parameters())
    engine = Engine(model, optimizer, progress=False, sync=sync, clip_norm=CLIP)  # type: ignore[arg-type]
    for window in engine.windows(micro_batches_of(rank, UNEVEN), size=3):
        with window:
            credit_all(window, model)
    return weights_of(model)


@pytest.mark.parametrize("sync", ["last", "every"])
@pytest.mark.parametrize(
    ("build", "options", "nested"),
    [
        (Branched, {}, False),
        (Branched, {"reshard_after_forward": False}, True),
        (Branched, {"offload_policy": CPUOffloadPolicy(pin_memory=False)}, True),
        (Branched, {"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float64)}, True),
        (frozen, {}, True),
        (tied, {}, False),
        (one_headed, {}, True),
        (one_headed, {}, False),
    ],
    ids=[
        "root",
        "kept",
        "offloaded",
        "reduced-in-float64",
        "frozen",
        "tied",
        "unused",
        "unused-root",
    ],
)
def test_a_step_is_that_of_one_big_batch(
    two_ranks: Pool,
    build: Callable[[], nn.Module],
    options: dict[str, Any],
    nested: bool,
    sync: str,
) -> None:
    expected = by_big_batches(build)

    found = two_ranks.run(train, build, options, nested, sync)

    assert all(distance(one, expected) <= 1e-6 for one in found)
