"""One problem, cut into pieces for ranks; and the big batch that they are compared with."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from gradkeeper.engine import Window
from tests.engine.problems import Pair, classifier, parts_of, plain_sgd, rows

KINDS = ("ddp", "fsdp")


def wrapped(kind: str, model: nn.Module | None = None) -> nn.Module:
    """By "ddp", "fsdp", or "hsdp": pairs of ranks that shard, and each pair a copy. By "tp", all
    ranks share the first and the last layer, by "fsdp+tp" pairs of ranks. Or "plain"."""
    model = classifier() if model is None else model
    if kind.endswith("tp"):
        return tensor_parallel(kind, model)
    if kind == "plain":
        return model
    if kind == "ddp":
        return DistributedDataParallel(model)
    names = ("copy", "shard")
    pairs = (dist.get_world_size() // 2, 2)
    mesh = init_device_mesh("cpu", pairs, mesh_dim_names=names) if kind == "hsdp" else None
    for layer in model.children():
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def tensor_parallel(kind: str, model: nn.Module) -> nn.Module:
    plan = {
        "0": ColwiseParallel(output_layouts=Replicate()),
        "3": RowwiseParallel(input_layouts=Replicate()),
    }
    ranks = dist.get_world_size()
    if kind == "tp":
        return parallelize_module(model, init_device_mesh("cpu", (ranks,)), plan)
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("dp", "tp"))
    parallelize_module(model, mesh["tp"], plan)
    for layer in model.children():
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    return model


def sharing(kind: str) -> int:
    """How many ranks read the same micro-batches."""
    return {"tp": dist.get_world_size(), "fsdp+tp": 2}.get(kind, 1)


def weights_of(model: nn.Module) -> list[Tensor]:
    """Whole ones, wherever they lie."""
    found = []
    for one in model.parameters():
        value = one.detach()
        found.append((value.full_tensor() if isinstance(value, DTensor) else value).clone())
    return found


def credit_all(window: Window, model: nn.Module) -> None:
    for x, y in window:
        window.backward(cross_entropy(model(x), y), weight=len(y))


def micro_batches_of(rank: int, sizes: Sequence[Sequence[int]]) -> list[Pair]:
    """A rank's share of the rows: those of rank 0 come first."""
    counts = [count for one in sizes for count in one]
    parts = parts_of(rows(sum(counts)), counts)
    before = sum(len(one) for one in sizes[:rank])
    return parts[before : before + len(sizes[rank])]


def big_batches(sizes: Sequence[Sequence[int]], size: int, epochs: int = 1) -> list[Tensor]:
    """One process, one batch per step: what all ranks hold in that window."""
    model = classifier()
    optimizer = plain_sgd(model.parameters())
    shares = [micro_batches_of(rank, sizes) for rank in range(len(sizes))]
    longest = max(len(share) for share in shares)
    for _ in range(epochs):
        for start in range(0, longest, size):
            window = [part for share in shares for part in share[start : start + size]]
            optimizer.zero_grad()
            x, y = torch.cat([x for x, _ in window]), torch.cat([y for _, y in window])
            cross_entropy(model(x), y).backward()
            optimizer.step()
    return weights_of(model)
