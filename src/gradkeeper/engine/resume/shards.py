"""Tensors that ranks hold in shards, and what each rank saves of a run."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from gradkeeper.checkpoint import UnkeepableError
from gradkeeper.engine.errors import ResumeError
from gradkeeper.torch_private import is_sharded, strided, strides_of
from gradkeeper.tree import StateTree, mapped, with_tensors, zipped

KEYS = {"shard", "whole", "start", "placements"}
Box = list[tuple[int, int]]
"""By dimension: from where, and how many."""
Cut = int | list[int] | None
"""What a dimension of the mesh does to a tensor: it cuts this dimension of it; or each of the
pieces, so many, that tensor parallelism has cut that into; or holds copies."""


def is_shard(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == KEYS


def in_shards(value: Any) -> Any:
    """The same state with plain tensors only."""
    return with_tensors(value, lambda tensor: _shard_of(tensor) if is_sharded(tensor) else tensor)


def unsharded(value: Any, meshes: Mapping[int, Any]) -> Any:
    """The way back, where nothing tells the mesh but the model that is trained. `meshes`: by the
    number of their dimensions."""
    if is_shard(value):
        dimensions = len(value["placements"])
        return _on_mesh(value, meshes.get(dimensions, next(iter(meshes.values()), None)))
    return mapped(value, lambda part: unsharded(part, meshes))


def placed(saved: Any, like: Tensor) -> Any:
    """What was saved of a tensor, as `like` is: whole, or this rank's shard of it."""
    if is_shard(saved):
        return _on_mesh(saved, getattr(like, "device_mesh", None))
    if is_sharded(like) and isinstance(saved, Tensor) and not is_sharded(saved):
        if saved.shape == like.shape:
            placements = _cuts(like.placements)  # type: ignore[attr-defined]
            return _on_mesh(_whole(saved, placements), like.device_mesh)  # type: ignore[attr-defined]
    return saved


def joined(states: Sequence[Any]) -> Any:
    """The first state, with the shards of all of them put together."""
    first = states[0]
    if is_shard(first):
        return _whole(put_together(states), first["placements"])
    return zipped(states, joined)


def _shard_of(tensor: Any) -> StateTree:
    placements = _cuts(tensor.placements)
    with torch.no_grad():
        local = tensor.to_local()
    box = _box(tensor.shape, placements, tensor.device_mesh)
    return {
        "shard": local,
        "whole": list(tensor.shape),
        "start": [start for start, _ in box],
        "placements": placements,
    }


def _whole(tensor: Tensor, placements: list[Cut]) -> StateTree:
    shape = list(tensor.shape)
    start = [0] * len(shape)
    return {"shard": tensor, "whole": shape, "start": start, "placements": placements}


def put_together(shards: Sequence[StateTree]) -> Tensor:
    first = shards[0]["shard"]
    whole = torch.zeros(shards[0]["whole"], dtype=first.dtype)
    for saved in shards:
        shard = saved["shard"]
        at = tuple(
            slice(start, start + size)
            for start, size in zip(saved["start"], shard.shape, strict=True)
        )
        whole[at] = shard
    return whole


def covers(shards: Sequence[StateTree]) -> bool:
    """Whether they are all there is of a tensor; some may be there more than once."""
    boxes = {(tuple(shard["start"]), _shape(shard["shard"])) for shard in shards}
    return sum(prod(shape) for _, shape in boxes) == prod(shards[0]["whole"])


def _shape(shard: Any) -> tuple[int, ...]:
    """Of a tensor, or of one that is not read yet."""
    return tuple(shard.shape if isinstance(shard, Tensor) else shard.view.shape)


def _on_mesh(saved: StateTree, mesh: Any) -> Tensor:
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


def _cut(saved: StateTree, box: Box) -> Tensor:
    shard: Tensor = saved["shard"]
    for dimension, (start, size) in enumerate(box):
        offset = start - saved["start"][dimension]
        if size and (offset < 0 or offset + size > shard.shape[dimension]):
            raise ResumeError("the model is sharded in another way than it was at the save")
        shard = shard.narrow(dimension, max(0, offset) if size else 0, size)
    return shard


def _box(shape: Sequence[int], placements: list[Cut], mesh: Any) -> Box:
    """The part of a tensor that lies here: in each dimension as torch.chunk cuts it."""
    box = [(0, size) for size in shape]
    # Pieces of pieces last, whichever dimension of the mesh it is.
    for number, cut in sorted(enumerate(placements), key=lambda pair: isinstance(pair[1], list)):
        if cut is not None:
            dimension = cut[0] if isinstance(cut, list) else cut
            start, size = box[dimension]
            length = -(-size // mesh.size(number))
            begin = min(mesh.get_local_rank(number) * length, size)
            box[dimension] = (start + begin, min(length, size - begin))
    return box


def _cuts(placements: Sequence[Any]) -> list[Cut]:
    """By dimension of the mesh."""
    from torch.distributed.tensor import Replicate, Shard

    found: list[Cut] = []
    for placement in placements:
        pieces = strides_of(placement)
        if pieces is not None:
            found.append(list(pieces))
        elif type(placement) is Shard:
            found.append(placement.dim)
        elif type(placement) is Replicate:
            found.append(None)
        else:
            raise UnkeepableError(f"a tensor placed as {placement} cannot be kept yet")
    return found


def _placements(cuts: list[Cut]) -> list[Any]:
    from torch.distributed.tensor import Replicate, Shard

    made: list[Any] = []
    for cut in cuts:
        if isinstance(cut, list):
            made.append(strided(*cut))
        else:
            made.append(Replicate() if cut is None else Shard(cut))
    return made
