"""FSDP2 where not every backward reaches the same parameters: experts, several modalities.

Torch lays the gradients of a group one behind the other and adds them up by place, so what is not
reached must not move the rest.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.optim import SGD, Optimizer

from gradkeeper.engine import Engine, RankError
from tests.engine.problems import distance
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import weights_of

Way = tuple[str, bool]
"""Which experts the ranks use in turns, and whether the layer that lies apart runs."""
WAYS: dict[str, list[Way]] = {
    "another expert each time": [("a", True), ("b", True)],
    "a layer that the last leaves out": [("a", True), ("a", False)],
    "a layer that the first leaves out": [("a", False), ("a", True)],
    "another expert on each rank": [("ab", True), ("ab", True)],
    "all of it": [("ab", True), ("ba", False), ("b", True)],
}


class Experts(nn.Module):
    """Of equal size, so that torch does not notice when their gradients change places."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.expert = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
        self.apart = nn.Linear(4, 4)
        self.never = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor, name: str, apart: bool) -> Tensor:
        x = self.expert[name](x)
        if apart:
            x = self.apart(x)
        return self.head(torch.tanh(x))  # type: ignore[no-any-return]


def optimizer_of(model: nn.Module) -> Optimizer:
    """Which moves what has a gradient of zeros, and leaves what has none."""
    return SGD(model.parameters(), lr=0.1, weight_decay=0.1)


def rows(count: int, ranks: int) -> Tensor:
    return torch.randn(count, ranks, 2, 4, generator=torch.Generator().manual_seed(1))


def by_one_process(ways: Sequence[Way], ranks: int) -> list[Tensor]:
    model = Experts()
    optimizer = optimizer_of(model)
    data = rows(len(ways), ranks)
    for _ in range(2):
        optimizer.zero_grad()
        for part, (names, apart) in zip(data, ways, strict=True):
            for rank in range(ranks):
                loss = model(part[rank], names[rank % len(names)], apart).square().mean()
                (loss / (ranks * len(ways))).backward()
        optimizer.step()
    return weights_of(model)


def sharded(**options: Any) -> Experts:
    model, ranks = Experts(), dist.get_world_size()
    copies = {"mesh_dim_names": ("copy", "shard")}
    mesh = init_device_mesh("cpu", (2, 2), **copies) if ranks == 4 else None  # type: ignore[arg-type]
    fully_shard(model.apart, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def by_ranks(rank: int, sync: Any, ways: Sequence[Way], folder: str = "", stop: int = 0) -> Any:
    """Weights; with `stop`, those of a run that was left after as many micro-batches, in another
    engine that went on from its save."""
    weights: list[Tensor] = []
    for left_after in [stop, 0] if stop else [0]:
        model = sharded()
        engine = Engine(
            model, optimizer_of(model), sync=sync, checkpoint=folder or None, progress=False
        )
        if folder:
            engine.resume()
        credit(engine, model, ways, left_after)
        weights = weights_of(model)
    return weights


def credit(engine: Engine, model: Experts, ways: Sequence[Way], left_after: int = 0) -> None:
    rank = dist.get_rank()
    data = rows(len(ways), dist.get_world_size())
    for window in engine.windows(range(len(ways)), size=len(ways), epochs=2):
        with window:
            for place in window:
                names, apart = ways[place]
                x = data[place, rank]
                window.backward(model(x, names[rank % len(names)], apart).square().mean())
                if window.read == left_after:
                    engine.save()
        if left_after:
            return


@pytest.mark.parametrize("sync", ["every", "shards", "last"])
@pytest.mark.parametrize("ways", WAYS)
def test_whatever_is_reached_the_step_is_that_of_one_process(
    four_ranks: Pool, ways: str, sync: str
) -> None:
    expected = by_one_process(WAYS[ways], 4)

    found = four_ranks.run(by_ranks, sync, WAYS[ways])

    assert all(distance(weights, expected) <= 1e-6 for weights in found)


@pytest.mark.parametrize("sync", ["every", "last"])
@pytest.mark.parametrize("ways", WAYS)
def test_so_it_is_without_copies(two_ranks: Pool, ways: str, sync: str) -> None:
    expected = by_one_process(WAYS[ways], 2)

    found = two_ranks.run(by_ranks, sync, WAYS[ways])

    assert all(distance(weights, expected) <= 1e-6 for weights in found)


def refused(rank: int, ways: Sequence[Way]) -> tuple[str, float]:
    """By a torch that cannot let what is not reached take part."""
    model = sharded()
    engine = Engine(model, optimizer_of(model), sync="last", progress=False)
    exchange: Any = engine._shared.ranks
    exchange._sync.fills = False
    before = weights_of(model)
    try:
        credit(engine, model, ways)
    except RankError as error:
        return str(error), distance(weights_of(model), before)
    return "", 0.0


def test_where_zeros_cannot_take_part_what_one_rank_alone_reached_is_named(
    two_ranks: Pool,
) -> None:
    found = two_ranks.run(refused, WAYS["another expert on each rank"])

    for told, moved in found:
        assert told.startswith("rank 0 reached expert.a.weight in this window and rank 1 did not")
        assert moved == 0


def test_a_window_that_goes_on_knows_what_it_had_reached(two_ranks: Pool, tmp_path: Path) -> None:
    ways = WAYS["all of it"]
    whole = two_ranks.run(by_ranks, "every", ways)

    found = two_ranks.run(by_ranks, "every", ways, str(tmp_path), 1)

    assert all(distance(a, b) == 0 for a, b in zip(found, whole, strict=True))


def in_mixed_precision(rank: int, sync: Any, ways: Sequence[Way]) -> list[Tensor]:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = sharded(mp_policy=policy)
    engine = Engine(model, optimizer_of(model), sync=sync, progress=False)
    credit(engine, model, ways)
    return weights_of(model)


@pytest.mark.parametrize("sync", ["every", "last"])
@pytest.mark.parametrize("ways", WAYS)
def test_gradients_may_be_added_in_another_type(two_ranks: Pool, ways: str, sync: str) -> None:
    expected = by_one_process(WAYS[ways], 2)

    found = two_ranks.run(in_mixed_precision, sync, WAYS[ways])

    # Eight bits of each number.
    assert all(distance(weights, expected) <= 0.01 for weights in found)
