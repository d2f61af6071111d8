"""A walk over the whole graph of a loss: what it reaches. Slow, so made now and then only."""

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Reach:
    """What a backward will reach."""

    leaves: list[torch.Tensor]
    """Tensors that receive a gradient, parameters or not."""
    coupled: bool
    """A layer normalises each batch by its own statistics."""
    autocast: str | None
    """The half precision in which float32 parameters were used."""


def reach_of(losses: list[torch.Tensor]) -> Reach:
    leaves: dict[int, torch.Tensor] = {}
    dtypes: set[torch.dtype] = set()
    coupled = False
    waiting: list[Any] = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    for loss in losses:
        if loss.grad_fn is None and loss.requires_grad:
            leaves[id(loss)] = loss
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        kind = type(node).__name__
        if kind == "AccumulateGrad":
            leaves[id(node.variable)] = node.variable
            continue
        coupled = coupled or _couples(node, kind)
        dtypes.update(_dtypes(node))
        for branch, _ in node.next_functions:
            if branch is not None and branch not in seen:
                seen.add(branch)
                waiting.append(branch)
    found = list(leaves.values())
    return Reach(found, coupled, _autocast(dtypes, found))


def _couples(node: Any, kind: str) -> bool:
    if "BatchNorm" not in kind:
        return False
    return bool(getattr(node, "_saved_training", True))


def _dtypes(node: Any) -> set[torch.dtype]:
    try:
        return {one.dtype for one in node._input_metadata}
    except (RuntimeError, AttributeError):
        return set()


def _autocast(dtypes: set[torch.dtype], leaves: list[torch.Tensor]) -> str | None:
    if not any(leaf.dtype is torch.float32 for leaf in leaves):
        return None
    if any(leaf.dtype in (torch.float16, torch.bfloat16) for leaf in leaves):
        return None
    if torch.float16 in dtypes:
        return "float16"
    return "bfloat16" if torch.bfloat16 in dtypes else None
