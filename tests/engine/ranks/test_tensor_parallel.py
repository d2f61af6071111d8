"""Layers that ranks share (parallelize_module), alone and under FSDP2: as one process trains."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from gradkeeper.engine import Engine, RankError, SetupError
from tests.engine.problems import classifier, distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import credit_all, sharing, tensor_parallel, weights_of, wrapped
from tests.engine.ranks.test_exact import shares_of, trained_on_share
from tests.engine.ranks.test_saved import check_every_cut


def trained(rank: int, kind: str, options: dict[str, Any]) -> tuple[list[Tensor], list[Any]]:
    """Groups of ranks take a share each, and the ranks of one group the same."""
    model = wrapped(kind)
    groups = dist.get_world_size() // sharing(kind)
    shares = shares_of(groups)
    engine = Engine(model, plain_sgd(model.parameters()), progress=False, **options)
    told = []
    for window in engine.windows(shares[rank // sharing(kind)], size=8 // groups, epochs=2):
        with window:
            credit_all(window, model)
        told.append((window.loss, window.grad_norm, window.weight))
    return weights_of(model), told


@pytest.mark.parametrize("kind", ["tp", "fsdp+tp"])
def test_loss_norm_weight_and_clipping_are_those_of_one_process(
    two_ranks: Pool, four_ranks: Pool, kind: str
) -> None:
    weights, told = trained_on_share(0, "plain", 1)
    pool = two_ranks if kind == "tp" else four_ranks

    found = pool.run(trained, kind, {"clip_norm": 0.1})

    for others, told_there in found:
        assert distance(others, weights) <= 1e-6
        torch.testing.assert_close(told_there, told, atol=1e-6, rtol=1e-6)
        assert [told_of[1] for told_of in told_there] == [told_of[1] for told_of in found[0][1]]


@pytest.mark.parametrize("options", [{"sync": "last"}, {"clip_value": 0.01}])
def test_other_options_are_those_of_one_process(four_ranks: Pool, options: dict[str, Any]) -> None:
    plain = {key: value for key, value in options.items() if key != "sync"}
    model = classifier()
    engine = Engine(model, plain_sgd(model.parameters()), progress=False, **plain)
    for window in engine.windows(shares_of(1)[0], size=8, epochs=2):
        with window:
            credit_all(window, model)

    found = four_ranks.run(trained, "fsdp+tp", options)

    assert all(distance(weights, weights_of(model)) <= 1e-6 for weights, _ in found)


@pytest.mark.parametrize("kind", ["tp", "fsdp+tp"])
def test_a_run_that_was_cut_ends_bit_for_bit_the_same(
    two_ranks: Pool, four_ranks: Pool, tmp_path: Path, kind: str
) -> None:
    pool = two_ranks if kind == "tp" else four_ranks

    # The noise in the data and the dropout are the same within a group, which is seeded alike.
    saves = check_every_cut(pool, kind, tmp_path, {"epochs": 1}, every=4)

    assert saves >= 8


class Sequences(nn.Module):
    """A norm between the layers, each of whose weights has a summand of its gradient per rank."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(self.norm(self.first(x)))
        return found


def of_sequences(rank: int, shared: bool) -> tuple[list[Tensor], list[Any]]:
    model: nn.Module = Sequences()
    if shared:
        plan: Any = {
            "first": ColwiseParallel(output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "last": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        }
        model = parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), plan)
    engine = Engine(model, SGD(model.parameters(), lr=0.1), clip_norm=0.05, progress=False)
    generator = torch.Generator().manual_seed(1)
    told = []
    for window in engine.windows(torch.randn(6, 3, 4, 4, generator=generator), size=2):
        with window:
            for x in window:
                window.backward(model(x).square().mean())
        told.append((window.loss, window.grad_norm))
    return weights_of(model), told


def test_summands_of_a_gradient_are_added_up(two_ranks: Pool) -> None:
    weights, told = of_sequences(0, shared=False)

    for others, told_there in two_ranks.run(of_sequences, True):
        assert distance(others, weights) <= 1e-6
        torch.testing.assert_close(told_there, told, atol=1e-6, rtol=1e-6)


# What is refused


def told_at_the_end(rank: int) -> str:
    model = wrapped("tp")
    engine = Engine(model, plain_sgd(model.parameters()), progress=False)
    try:
        with engine.window() as window:
            window.backward(model(torch.ones(4, 6)).mean(), weight=4 + rank)
    except RankError as error:
        return str(error)
    return ""


def test_ranks_that_share_a_layer_must_read_the_same(two_ranks: Pool) -> None:
    for told in two_ranks.run(told_at_the_end):
        assert "rank 0 and rank 1 share layers (tensor parallelism)" in told
        assert "by 4 and 5: both must be handed the same micro-batches" in told


def refusals(rank: int) -> list[str]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    plan: Any = {"0": ColwiseParallel(), "3": RowwiseParallel()}
    half = parallelize_module(classifier(), mesh["tp"], plan)
    both = {"G": tensor_parallel("tp", classifier()), "D": tensor_parallel("tp", classifier())}
    inside = nn.Sequential(
        DistributedDataParallel(classifier()), tensor_parallel("tp", classifier())
    )
    told = []
    for model, optimizer in (
        (half, plain_sgd(half.parameters())),
        (both, {name: plain_sgd(one.parameters()) for name, one in both.items()}),
        (inside, plain_sgd(inside.parameters())),
    ):
        try:
            Engine(model, optimizer)
        except SetupError as error:
            told.append(str(error))
    return told


def test_what_cannot_be_shared_is_refused_with_the_way_out(four_ranks: Pool) -> None:
    half, several, wrapper = four_ranks.run(refusals)[0]

    assert "tensor-parallel over 2 of 4 ranks, and nobody exchanges gradients" in half
    assert 'fully_shard(model, mesh=mesh["dp"])' in half
    assert "several owners cannot be tensor-parallel" in several
    assert "DistributedDataParallel around a tensor-parallel model is not supported" in wrapper
