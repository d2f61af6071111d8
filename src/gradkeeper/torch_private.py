"""Private parts of torch 2.6 to 2.13, used where there is no public way: here and nowhere else.

FSDP2        gradients that are not reduced yet, and over which ranks they are
DTensor      what lies here, and in shards of shards
DDP          the two halves of a forward, what they exchange, and who holds what
DataLoader   a loader with other indices, its iterator and its workers
distributed  the store that the ranks met at
modules      what wraps them, and kinds of them
optimizers   whether they can be hooked; a scheduler's first tick
autograd     what a graph has saved
dynamo       which functions torch.compile looks into

What a tensor or a node of a graph says of itself under such a name (`_version`, `_saved_self`) is
asked of it wherever it is needed, and so are torch's `_foreach_` functions. Nothing of
torch.distributed is imported before it is asked for: one process need not wait for it.
"""

import copy
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch._utils import ExceptionWrapper as ExceptionWrapper
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader, IterableDataset, MapDataPipe
from torch.utils.data.dataloader import _BaseDataLoaderIter

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

F = TypeVar("F", bound=Callable[..., Any])
Undo = Callable[[], object]

# FSDP2. Under `set_requires_gradient_sync(False)` gradients wait in the unsharded parameters, which
# no optimizer knows: `zero_grad()` leaves them, and the next backward adds to them.


def unsharded_parameters(roots: "list[FSDPModule]") -> list[Tensor]:
    """Which a backward credits; those of modules that have run."""
    found = [getattr(parameter, "_unsharded_param", None) for parameter in fsdp_parameters(roots)]
    return [parameter for parameter in found if parameter is not None and parameter.requires_grad]


def reduce_pending(roots: "list[FSDPModule]") -> None:
    """What the end of a synchronised backward does."""
    for root in roots:
        state: Any = root._get_fsdp_state()
        state._root_post_backward_final_callback()


def can_defer_all_reduce(roots: "list[FSDPModule]") -> bool:
    """Whether shards have copies (HSDP), and this torch can be told to add them up later."""
    return can_fill_unreached(roots) and all(
        hasattr(group, "_partial_reduce_output")
        and hasattr(group.mesh_info, "replicate_process_group")
        and hasattr(group.mesh_info, "shard_process_group")
        for group in _groups(roots)
    )


def all_reduce_pending(roots: "list[FSDPModule]") -> None:
    """What backwards under `set_requires_all_reduce(False)` have left: torch adds it to the next
    gradients, so these are zeros. Within `fill_unreached`."""
    for group in _groups(roots):
        if group._partial_reduce_output is not None:
            group.post_backward()
            group.finalize_backward()


def can_fill_unreached(roots: "list[FSDPModule]") -> bool:
    return all(hasattr(group, "reduce_scatter_unused_params") for group in _groups(roots))


def fill_unreached(roots: "list[FSDPModule]") -> Undo:
    """What `set_reduce_scatter_unused_params(True)` does, until undone: parameters that a backward
    does not reach take part in its exchange with zeros."""
    changed = [group for group in _groups(roots) if not group.reduce_scatter_unused_params]

    def set_to(fills: bool) -> None:
        for group in changed:
            group.reduce_scatter_unused_params = fills

    set_to(True)
    return lambda: set_to(False)


def fill_waiting(roots: "list[FSDPModule]") -> None:
    """Gradients that wait for their exchange lie apart where they are exchanged in another type.
    What `fill_unreached` adds is of the parameters' type, and torch takes one type only: so zeros
    wait beside them."""
    for parameter in fsdp_parameters(roots):
        whole = unsharded_parameter(parameter)
        if whole is None or not whole.requires_grad or pending_apart(parameter) is not None:
            continue
        if parameter.reduce_dtype not in (None, whole.dtype):
            parameter.unsharded_accumulated_grad = torch.zeros_like(
                whole, dtype=parameter.reduce_dtype
            )


def spare_unrun(roots: "list[FSDPModule]") -> Undo:
    """At the end of a backward that exchanges nothing, torch asks modules that have never run for
    their gradients too, and fails: until undone, those are not asked before they have run."""
    unrun = [
        parameter for parameter in fsdp_parameters(roots) if unsharded_parameter(parameter) is None
    ]

    def spared(parameter: Any) -> Callable[[], None]:
        original: Callable[[], None] = parameter.to_accumulated_grad_if_needed
        return lambda: None if unsharded_parameter(parameter) is None else original()

    for parameter in unrun:
        parameter.to_accumulated_grad_if_needed = spared(parameter)

    def undo() -> None:
        for parameter in unrun:
            vars(parameter).pop("to_accumulated_grad_if_needed", None)

    return undo


def clear_pending(roots: "list[FSDPModule]") -> None:
    for group in _groups(roots):
        group._partial_reduce_output = None
    for parameter in fsdp_parameters(roots):
        parameter.unsharded_accumulated_grad = None
        unsharded = getattr(parameter, "_unsharded_param", None)
        if unsharded is not None and unsharded.grad is not None:
            unsharded.grad = None


def divides_by(roots: "list[FSDPModule]") -> set[float | None]:
    """What gradients are divided by: None for the number of ranks."""
    return {group.gradient_divide_factor for group in _groups(roots)}


def fsdp_parameters(roots: "list[FSDPModule]") -> Iterator[Any]:
    """For `sharded_parameter` and `unsharded_parameter`."""
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


def sharded_parameter(parameter: Any) -> Tensor:
    """What the optimizer knows of FSDP2's parameter."""
    known: Tensor = parameter.sharded_param
    return known


def unsharded_parameter(parameter: Any) -> Tensor | None:
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


def data_parallel_size(roots: "list[FSDPModule]") -> int:
    """How many ranks FSDP2 reduces gradients over; fewer than all under tensor parallelism."""
    return max(int(group.mesh_info.mesh.size()) for group in _groups(roots))


def outputs_in(outputs: Any) -> list[Tensor]:
    """Of a forward, in whatever containers torch itself looks into."""
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]


# DTensor. Where tensor parallelism has cut a dimension already, FSDP2 cuts each piece of it.
# To read a value of one is to ask all its ranks: whoever only looks on reads what is held here.


def is_sharded(tensor: object) -> bool:
    return hasattr(tensor, "_local_tensor")


def held_here(tensor: Any) -> Tensor:
    """This rank's part of a sharded tensor, the very memory; of another one, all of it."""
    local: Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


def writes_into(tensor: Any) -> int:
    """Moves with each write. A DTensor's own version does not when FSDP2 adds to what it holds, nor
    does that one's when the DTensor is written to (torch 2.13)."""
    version: int = tensor._version
    if type(tensor) is Tensor or not is_sharded(tensor):
        return version
    return version + int(tensor._local_tensor._version)


def strides_of(placement: Any) -> tuple[int, int] | None:
    """The dimension, and the number of pieces that it was in before; None for another placement."""
    from torch.distributed.tensor.placement_types import _StridedShard

    if not isinstance(placement, _StridedShard):
        return None
    return placement.dim, int(placement.split_factor)


def strided(dimension: int, factor: int) -> Any:
    from torch.distributed.tensor.placement_types import _StridedShard

    return _StridedShard(dimension, split_factor=factor)


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
        torch.autograd.backward(roots, [torch.zeros_like(root) for root in roots])


def flattened(tensors: Sequence[Tensor]) -> Tensor:
    """One buffer with the numbers of all of them."""
    flat: Tensor = _flatten_dense_tensors(tensors)
    return flat


def unflattened(flat: Tensor, like: Sequence[Tensor]) -> Sequence[Tensor]:
    """The way back."""
    parts: Sequence[Tensor] = _unflatten_dense_tensors(flat, like)
    return parts


def averages_later(wrapper: Any) -> bool:
    """Local SGD: its hook exchanges gradients within some ranks only, and weights now and then."""
    hooks: Any = sys.modules.get("torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook")
    if hooks is None:
        return False
    return any(hook is hooks.post_localSGD_hook for hook, _ in wrapper._comm_hooks)


def ranks_with_the_same_shard(parameter: Any) -> tuple[int, ...]:
    """Of a DTensor: those that hold a copy of this rank's part (HSDP)."""
    import torch.distributed as dist

    mesh, placements = parameter.device_mesh, parameter.placements
    ranks = {dist.get_rank()}
    for dimension, placement in enumerate(placements):
        if placement.is_replicate():
            ranks |= set(dist.get_process_group_ranks(mesh.get_group(dimension)))
    return tuple(sorted(ranks))


# DataLoader has no public way to hand it another sampler once it is made, nor to make it again from
# its own settings: so a shallow copy is changed.


def can_be_copied(loader: Any) -> bool:
    """A map-style loader that iterates as DataLoader does; a subclass may do as it likes."""
    if not isinstance(loader, DataLoader):
        return False
    if isinstance(loader.dataset, IterableDataset | MapDataPipe):
        return False
    kind = type(loader)
    if kind is stateful_loader():
        return True
    own = (kind.__iter__, kind._get_iterator)
    return own == (DataLoader.__iter__, DataLoader._get_iterator)


def copied_loader(loader: DataLoader[Any], **settings: Any) -> DataLoader[Any]:
    """With all of the user's settings but these."""
    made = copy.copy(loader)
    vars(made).update(settings, _iterator=None)
    return made


def copied_as_plain(loader: DataLoader[Any], **settings: Any) -> DataLoader[Any]:
    """A StatefulDataLoader has all that a DataLoader has: it iterates as one then."""
    made = copied_loader(loader, **settings)
    if type(loader) is stateful_loader():
        made.__class__ = DataLoader
    return made


def stateful_loader() -> type | None:
    """torchdata's, if anybody has imported it."""
    module = sys.modules.get("torchdata.stateful_dataloader")
    return getattr(module, "StatefulDataLoader", None)


def make_quietly(loader: DataLoader[Any], mark: Callable[[], Undo]) -> Undo:
    """What the making of the loader's next iterator draws is taken back, to where `mark` was."""
    original = loader._get_iterator

    def undo() -> None:
        vars(loader).pop("_get_iterator", None)

    def made() -> Any:
        undo()
        take_back = mark()
        iterator = original()
        take_back()
        return iterator

    vars(loader)["_get_iterator"] = made
    return undo


LOADER_ITERATOR: type = _BaseDataLoaderIter
"""Whose `__next__` hands out batches, with workers and without."""


def index_sampler_of(iterator: object) -> Any:
    """What a loader's iterator draws its indices from; None if it is none."""
    return getattr(iterator, "_index_sampler", None)


def pinned(batch: Any) -> Any:
    """As a loader with `pin_memory` does it."""
    from torch.utils.data._utils.pin_memory import pin_memory

    return pin_memory(batch)


def end_workers(loader: DataLoader[Any]) -> None:
    """Those that stay between epochs: they end with their iterator, which only the loader holds."""
    vars(loader)["_iterator"] = None


# torch.distributed


def default_store() -> Any:
    """That init_process_group made."""
    import torch.distributed as dist

    return dist.distributed_c10d._get_default_store()


# Modules

WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module")
"""Parts of names that torch.compile and activation checkpointing put in."""


def compiled(module: nn.Module) -> nn.Module | None:
    """What torch.compile has wrapped; None if it has not."""
    inner: nn.Module | None = getattr(module, "_orig_mod", None)
    return inner


def own_parameters(module: nn.Module) -> dict[str, Tensor]:
    """By name; none where a lazy proxy, or a module that is not built yet, has no such table."""
    held = vars(module).get("_parameters") or {}
    return {name: parameter for name, parameter in held.items() if parameter is not None}


def own_children(module: nn.Module) -> dict[str, nn.Module]:
    held = vars(module).get("_modules") or {}
    return {name: child for name, child in held.items() if child is not None}


def is_batch_norm(module: nn.Module) -> bool:
    return isinstance(module, _BatchNorm)


# Optimizers and schedulers


def has_step_hooks(optimizer: object) -> bool:
    """False for a wrapper that calls itself an optimizer and never ran Optimizer.__init__."""
    return hasattr(optimizer, "_optimizer_step_pre_hooks")


FIRST_TICK = "_initial_step"
"""The method by which a scheduler's constructor ticks."""


# autograd. What a node has saved is read as it lies there: with a hook (checkpointing, offloading)
# asking for it would bring it back.


class SavedStorage:
    """Knows a storage again, and does not keep its memory. `extent`: which of it was saved."""

    def __init__(self, tensor: Tensor) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        self._reference = StorageWeakRef(tensor.untyped_storage())
        self.extent = extent_of(tensor)

    def widen(self, other: "SavedStorage") -> None:
        """More of the same storage was saved."""
        (begin, end), (its_begin, its_end) = self.extent, other.extent
        self.extent = (min(begin, its_begin), max(end, its_end))


def extent_of(tensor: Tensor) -> tuple[int, int]:
    """From where to where a tensor lies in its storage, in bytes."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((length - 1) * stride for length, stride in steps)
    begin, size = int(tensor.storage_offset()), tensor.element_size()
    return begin * size, (begin + int(last) + 1) * size


def storage_key(tensor: Tensor) -> int:
    """The same for all tensors that share memory, as long as it is there."""
    return int(tensor.untyped_storage()._cdata)


def saved_storages(node: Any) -> dict[int, SavedStorage]:
    """Of the tensors that a node of a graph has saved, by address. As long as a `SavedStorage` is
    held, no other storage has its address."""
    found: dict[int, SavedStorage] = {}
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            saved = getattr(node, name)
            for value in saved if isinstance(saved, tuple | list) else (saved,):
                if getattr(value, "unpack_hook", _nothing) is not None:
                    continue  # of another torch, or with a hook
                tensor = value.data
                if isinstance(tensor, Tensor) and tensor.layout is torch.strided:
                    new = SavedStorage(tensor)
                    found.setdefault(storage_key(tensor), new).widen(new)
    return found


def made_at(node: Any) -> int:
    """When a node was made: each one of a thread has a higher number than those before it."""
    return int(node._sequence_nr())


# torch.compile. `torch.compiler.disable` would do, at the price of importing all of dynamo, and of
# two more calls around each call. What is said here costs nothing while nothing is compiled.


def keep_from_compiler(function: F, *, callees: bool = True) -> F:
    """Has torch.compile neither trace a function nor, with `callees`, what it calls. Returns it."""
    vars(function)["_torchdynamo_disable"] = True  # it is not inlined
    _choose(function.__code__, "SKIP", "SKIP" if callees else "DEFAULT")
    return function


def step_wrapper() -> CodeType:
    """Of the function that calls an optimizer's hooks around each step."""
    profile_hook_step: Any = torch.optim.Optimizer.profile_hook_step
    code: CodeType = profile_hook_step(_nothing).__code__
    return code


def leave_to_python(code: CodeType, *, leave: bool) -> None:
    """Whether this code itself is run as it is; what it calls may be compiled all the same."""
    _choose(code, "SKIP" if leave else "DEFAULT", "DEFAULT")


def _choose(code: CodeType, itself: str, callees: str) -> None:
    dynamo: Any = torch._C._dynamo.eval_frame
    if hasattr(dynamo, "_FrameExecStrategy"):
        action = dynamo._FrameAction
        strategy = dynamo._FrameExecStrategy(getattr(action, itself), getattr(action, callees))
        dynamo.set_code_exec_strategy(code, strategy)
    elif itself == "SKIP" and hasattr(dynamo, "skip_code"):
        dynamo.skip_code(code)  # before torch 2.7


def _nothing() -> None:
    """Any function."""
