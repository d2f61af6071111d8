"""Private parts of torch 2.6 to 2.13, used where there is no public way: here and nowhere else.

FSDP2        gradients that are not reduced yet
DDP          the two halves of a forward, and what they exchange
DataLoader   a loader with other indices, and its workers
distributed  the store that the ranks met at

Nothing of torch.distributed is imported before it is asked for: one process need not wait for it.
"""

import copy
import gc
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, MapDataPipe

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

# FSDP2. Under `set_requires_gradient_sync(False)` gradients wait in the unsharded parameters, which
# no optimizer knows: `zero_grad()` leaves them, and the next backward adds to them.


def unsharded_parameters(roots: "list[FSDPModule]") -> list[Tensor]:
    """Which a backward credits; those of modules that have run."""
    found = [getattr(one, "_unsharded_param", None) for one in _parameters(roots)]
    return [one for one in found if one is not None and one.requires_grad]


def reduce_pending(roots: "list[FSDPModule]") -> None:
    """What the end of a synchronised backward does."""
    for root in roots:
        state: Any = root._get_fsdp_state()
        state._root_post_backward_final_callback()


def clear_pending(roots: "list[FSDPModule]") -> None:
    for one in _parameters(roots):
        one.unsharded_accumulated_grad = None
        unsharded = getattr(one, "_unsharded_param", None)
        if unsharded is not None and unsharded.grad is not None:
            unsharded.grad = None


def divides_by(roots: "list[FSDPModule]") -> set[float | None]:
    """What gradients are divided by: None for the number of ranks."""
    return {group.gradient_divide_factor for group in _groups(roots)}


def _parameters(roots: "list[FSDPModule]") -> Iterator[Any]:
    for group in _groups(roots):
        yield from group.fsdp_params


def _groups(roots: "list[FSDPModule]") -> Iterator[Any]:
    from torch.distributed.fsdp import FSDPModule

    for root in roots:
        for module in root.modules():  # type: ignore[attr-defined]
            if isinstance(module, FSDPModule):
                yield from _groups_of(module)


def _groups_of(module: Any) -> list[Any]:
    state = module._get_fsdp_state()
    several: list[Any] | None = getattr(state, "_fsdp_param_groups", None)
    if several is not None:
        return several
    # Before torch 2.12 there was one at most.
    group = state._fsdp_param_group
    return [] if group is None else [group]


def parameters_of_all_fsdp_modules() -> Iterator[tuple[Any, Any]]:
    """For who was handed no module: each group of parameters there is, with each of its
    parameters."""
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None or not hasattr(fsdp, "FSDPModule"):
        return
    for module in gc.get_objects():
        if issubclass(type(module), fsdp.FSDPModule):
            for group in _groups_of(module):
                for parameter in group.fsdp_params:
                    yield group, parameter


def sharded(parameter: Any) -> Tensor:
    """What the optimizer knows of FSDP2's parameter."""
    known: Tensor = parameter.sharded_param
    return known


def unsharded(parameter: Any) -> Tensor | None:
    """What stands in its place while a module runs; None before that."""
    whole: Tensor | None = getattr(parameter, "_unsharded_param", None)
    return whole


def pending_apart(parameter: Any) -> Tensor | None:
    """Its gradient that is not reduced yet, where gradients are reduced in another type."""
    apart: Tensor | None = parameter.unsharded_accumulated_grad
    return apart


def reduces(group: Any) -> bool:
    """Whether the next backward exchanges the gradients of a group."""
    return bool(group.reduce_grads)


# DDP


def exchange_as_a_forward_does(wrapper: Any) -> None:
    """The order of buckets, and buffers."""
    if wrapper._use_python_reducer or wrapper._delay_all_reduce_all_params:
        return
    if wrapper.reducer._rebuild_buckets():
        wrapper._has_rebuilt_buckets = True
    if wrapper._check_sync_bufs_pre_fwd():
        wrapper._sync_buffers()
        wrapper.require_forward_param_sync = False


def forward_and_backward_of_nothing(
    wrapper: Any, touched: Sequence[Tensor], *, begun: bool
) -> None:
    """The two halves of a forward around no forward: what they exchange, other ranks exchange in
    theirs. `begun`: the first half has run."""
    with torch.enable_grad():
        if not begun:
            wrapper._pre_forward()
        sums = tuple(parameter.sum() for parameter in touched)
        roots = wrapper._post_forward(sums)
        torch.autograd.backward(roots, [torch.zeros_like(one) for one in roots])


# DataLoader has no public way to hand it another sampler once it is made, nor to make it again from
# its own settings: so a shallow copy is changed.


def can_be_copied(loader: Any) -> bool:
    """A map-style loader that iterates as DataLoader does; a subclass may do as it likes."""
    if not isinstance(loader, DataLoader):
        return False
    kind = type(loader)
    if kind.__iter__ is not DataLoader.__iter__:
        return False
    if kind._get_iterator is not DataLoader._get_iterator:
        return False
    return not isinstance(loader.dataset, IterableDataset | MapDataPipe)


def copied_loader(loader: DataLoader[Any], **settings: Any) -> DataLoader[Any]:
    """With all of the user's settings but these."""
    made = copy.copy(loader)
    vars(made).update(settings, _iterator=None)
    return made


def end_workers(loader: DataLoader[Any]) -> None:
    """Those that stay between epochs: they end with their iterator, which only the loader holds."""
    vars(loader)["_iterator"] = None


# torch.distributed


def default_store() -> Any:
    """That init_process_group made."""
    import torch.distributed as dist

    return dist.distributed_c10d._get_default_store()
