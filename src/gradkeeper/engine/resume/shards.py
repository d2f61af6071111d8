"""Tensors that ranks hold in shards, and what each rank saves of a run."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradkeeper.checkpoint import UnkeepableError
from gradkeeper.engine.errors import ResumeError
from gradkeeper.tree import mapped, with_tensors, zipped

KEYS = {"shard", "whole", "start", "placements"}
State = dict[str, Any]
Box = list[tuple[int, int]]
"""By dimension: from where, and how many."""


def is_sharded(value: object) -> bool:
    return isinstance(value, Tensor) and hasattr(value, "placements")


def is_shard(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == KEYS


def in_shards(value: Any) -> Any:
    """The same state with plain tensors only."""
    return with_tensors(value, lambda one: _shard_of(one) if is_sharded(one) else one)


def unsharded(value: Any, mesh: Any) -> Any:
    """The way back, where nothing tells the mesh but the model that is trained."""
    if is_shard(value):
        return _on_mesh(value, mesh)
    return mapped(value, lambda one: unsharded(one, mesh))


def placed(saved: Any, like: Tensor) -> Any:
    """What was saved of a tensor, as `like` is: whole, or this rank's shard of it."""
    if is_shard(saved):
        return _on_mesh(saved, getattr(like, "device_mesh", None))
    if is_sharded(like) and isinstance(saved, Tensor) and not is_sharded(saved):
        if saved.shape == like.shape:
            placements = _dimensions(like.placements)  # type: ignore[attr-defined]
            return _on_mesh(_whole(saved, placements), like.device_mesh)  # type: ignore[attr-defined]
    return saved


def joined(states: Sequence[Any]) -> Any:
    """The first state, with the shards of all of them put together."""
    first = states[0]
    if is_shard(first):
        return _whole(_put_together(states), first["placements"])
    return zipped(states, joined)


def _shard_of(tensor: Any) -> State:
    placements = _dimensions(tensor.placements)
    with torch.no_grad():
        local = tensor.to_local()
    box = _box(tensor.shape, placements, tensor.device_mesh)
    return {
        "shard": local,
        "whole": list(tensor.shape),
        "start": [start for start, _ in box],
        "placements": placements,
    }


def _whole(tensor: Tensor, placements: list[int | None]) -> State:
    shape = list(tensor.shape)
    start = [0] * len(shape)
    return {"shard": tensor, "whole": shape, "start": start, "placements": placements}


def _put_together(shards: Sequence[State]) -> Tensor:
    first = shards[0]["shard"]
    whole = torch.zeros(shards[0]["whole"], dtype=first.dtype)
    for one in shards:
        shard = one["shard"]
        at = tuple(
            slice(start, start + size)
            for start, size in zip(one["start"], shard.shape, strict=True)
        )
        whole[at] = shard
    return whole


def _on_mesh(saved: State, mesh: Any) -> Tensor:
    if mesh is None:
        return _cut(saved, [(0, size) for size in saved["whole"]])
    from torch.distributed.tensor import DTensor

    if len(saved["placements"]) != mesh.ndim:
        raise ResumeError(
            f"the checkpoint was sharded over a mesh of {len(saved['placements'])} dimensions, and "
            f"the model lies on one of {mesh.ndim}"
        )
    whole = torch.empty(saved["whole"], device="meta")
    local = _cut(saved, _box(whole.shape, saved["placements"], mesh))
    return DTensor.from_local(
        local.to(mesh.device_type),
        mesh,
        _placements(saved["placements"]),
        run_check=False,
        shape=whole.shape,
        stride=whole.stride(),
    )


def _cut(saved: State, box: Box) -> Tensor:
    shard: Tensor = saved["shard"]
    for dimension, (start, size) in enumerate(box):
        offset = start - saved["start"][dimension]
        if size and (offset < 0 or offset + size > shard.shape[dimension]):
            raise ResumeError("the model is sharded in another way than it was at the save")
        shard = shard.narrow(dimension, max(0, offset) if size else 0, size)
    return shard


def _box(shape: Sequence[int], placements: list[int | None], mesh: Any) -> Box:
    """The part of a tensor that lies here: in each dimension as torch.chunk cuts it."""
    box = [(0, size) for size in shape]
    for number, dimension in enumerate(placements):
        if dimension is not None:
            start, size = box[dimension]
            length = -(-size // mesh.size(number))
            begin = min(mesh.get_local_rank(number) * length, size)
            box[dimension] = (start + begin, min(length, size - begin))
    return box


def _dimensions(placements: Sequence[Any]) -> list[int | None]:
    """By dimension of the mesh: which dimension of the tensor is cut; None for copies."""
    from torch.distributed.tensor import Replicate, Shard

    found: list[int | None] = []
    for one in placements:
        if type(one) not in (Shard, Replicate):
            raise UnkeepableError(f"a tensor placed as {one} cannot be kept yet")
        found.append(one.dim if isinstance(one, Shard) else None)
    return found


def _placements(dimensions: list[int | None]) -> list[Any]:
    from torch.distributed.tensor import Replicate, Shard

    return [Replicate() if one is None else Shard(one) for one in dimensions]
