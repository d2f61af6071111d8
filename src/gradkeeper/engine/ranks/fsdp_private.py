"""FSDP2's gradients that are not reduced yet. There is no public way to them: private attributes
of torch 2.6 to 2.13, used here and nowhere else.

Under `set_requires_gradient_sync(False)` they wait in the unsharded parameters, which no optimizer
knows: `zero_grad()` leaves them, and the next backward adds to them.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.distributed.fsdp import FSDPModule


def leaves(roots: list[FSDPModule]) -> list[Tensor]:
    """The unsharded parameters, which a backward credits; those of modules that have run."""
    found = [getattr(one, "_unsharded_param", None) for one in _parameters(roots)]
    return [one for one in found if one is not None and one.requires_grad]


def reduce_pending(roots: list[FSDPModule]) -> None:
    """What the end of a synchronised backward does."""
    for root in roots:
        state: Any = root._get_fsdp_state()
        state._root_post_backward_final_callback()


def clear_pending(roots: list[FSDPModule]) -> None:
    for one in _parameters(roots):
        one.unsharded_accumulated_grad = None
        unsharded = getattr(one, "_unsharded_param", None)
        if unsharded is not None and unsharded.grad is not None:
            unsharded.grad = None


def divides_by(roots: list[FSDPModule]) -> set[float | None]:
    """What gradients are divided by: None for the number of ranks."""
    return {group.gradient_divide_factor for group in _groups(roots)}


def _parameters(roots: list[FSDPModule]) -> Iterator[Any]:
    for group in _groups(roots):
        yield from group.fsdp_params


def _groups(roots: list[FSDPModule]) -> Iterator[Any]:
    for root in roots:
        for module in root.modules():  # type: ignore[attr-defined]
            if isinstance(module, FSDPModule):
                state: Any = module._get_fsdp_state()
                several = getattr(state, "_fsdp_param_groups", None)
                yield from several if several is not None else _one(state._fsdp_param_group)


def _one(group: Any) -> list[Any]:
    return [] if group is None else [group]
