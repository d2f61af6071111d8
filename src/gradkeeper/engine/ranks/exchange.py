"""Gradients of replicas averaged at a window's end, where no synchronised backward did it."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

NONE, DENSE, SPARSE = range(3)
BUCKET = 25 * 2**20
"""Bytes: DDP's default. All gradients in one buffer would double their memory."""


def average(parameters: list[Tensor], group: Any) -> None:
    """A gradient that some rank has becomes every rank's; what nobody has stays None."""
    _fill_in(parameters, group)
    ranks = dist.get_world_size(group)
    held = [parameter for parameter in parameters if parameter.grad is not None]
    dense = [p.grad for p in held if p.grad is not None and not p.grad.is_sparse]
    for bucket in _buckets(dense):
        flat = _flatten_dense_tensors(bucket).div_(ranks)
        dist.all_reduce(flat, group=group)
        for one, value in zip(bucket, _unflatten_dense_tensors(flat, bucket), strict=True):
            one.copy_(value)
    for parameter in held:
        if parameter.grad is not None and parameter.grad.is_sparse:
            whole = parameter.grad.div(ranks).coalesce()
            dist.all_reduce(whole, group=group)
            parameter.grad = whole


def _fill_in(parameters: list[Tensor], group: Any) -> None:
    """Zeros for gradients that only other ranks have."""
    here = [_kind(parameter.grad) for parameter in parameters]
    anywhere = torch.tensor(here, dtype=torch.uint8, device=parameters[0].device)
    dist.all_reduce(anywhere, op=dist.ReduceOp.MAX, group=group)
    for parameter, kind in zip(parameters, anywhere.tolist(), strict=True):
        if kind and parameter.grad is None:
            dense = kind == DENSE
            parameter.grad = torch.zeros_like(parameter) if dense else _no_rows(parameter)


def _kind(gradient: Tensor | None) -> int:
    if gradient is None:
        return NONE
    return SPARSE if gradient.is_sparse else DENSE


def _no_rows(table: Tensor) -> Tensor:
    """A sparse gradient without an entry: that of an embedding that was not looked up."""
    indices = torch.zeros(1, 0, dtype=torch.long, device=table.device)
    values = table.new_zeros(0, *table.shape[1:])
    return torch.sparse_coo_tensor(indices, values, table.shape, check_invariants=False)


def _buckets(gradients: list[Tensor]) -> Iterator[list[Tensor]]:
    """Of one dtype and device each, no larger than need be; in an order that all ranks share."""
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for one in gradients:
        kinds.setdefault((one.dtype, one.device), []).append(one)
    for alike in kinds.values():
        bucket: list[Tensor] = []
        size = 0
        for one in alike:
            bucket.append(one)
            size += one.numel() * one.element_size()
            if size >= BUCKET:
                yield bucket
                bucket, size = [], 0
        if bucket:
            yield bucket
