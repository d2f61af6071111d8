"""A module's state: what its state_dict holds, and what it leaves out though results depend on it.

Left out are buffers that are not persistent, which parameters are frozen, and which layers are in
eval mode: a run that unfreezes its trunk at step 100 goes on from step 150 with a thawed one.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from gradkeeper.engine.resume.sharded import placed

State = dict[str, Any]


def bare(module: nn.Module) -> nn.Module:
    """Without DDP's wrapper, which has no state: so the same run may go on without it."""
    return module.module if isinstance(module, DistributedDataParallel) else module


def module_state(module: nn.Module) -> State:
    module = bare(module)
    state = module.state_dict()
    return {
        "state": state,
        "beside": {name: one.detach() for name, one in _tensors(module) if name not in state},
        "frozen": [name for name, p in module.named_parameters() if not p.requires_grad],
        "evaluating": [name for name, part in module.named_modules() if not part.training],
    }


def restore_module(module: nn.Module, state: State) -> None:
    whole, module = module, bare(module)
    module.load_state_dict(_placed(state["state"], module.state_dict()))
    with torch.no_grad():
        for name, saved in state["beside"].items():
            _restore_beside(module, name, saved)
    frozen, evaluating = set(state["frozen"]), set(state["evaluating"])
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in frozen)
    for name, part in module.named_modules():
        part.training = name not in evaluating
    whole.training = module.training


def buffers_of(module: nn.Module) -> State:
    """Replicas have the same weights, but normalise by what each of them has seen."""
    return {name: one.detach() for name, one in bare(module).named_buffers()}


def restore_buffers(module: nn.Module, buffers: State) -> None:
    with torch.no_grad():
        for name, saved in buffers.items():
            _restore_beside(bare(module), name, saved)


def module_shape(module: nn.Module) -> State:
    """What must be equal on resume."""
    module = bare(module)
    state = module.state_dict()
    persistent = {name: one for name, one in module.named_buffers() if name in state}
    return {
        "parameters": {name: described(one) for name, one in module.named_parameters()},
        "buffers": {name: described(one) for name, one in persistent.items()},
    }


def described(tensor: Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if is_lazy(tensor):
        return f"{dtype}, not initialised: run a batch through lazy layers first"
    return f"{dtype}{list(tensor.shape)}"


def _placed(saved: State, live: State) -> State:
    """Shards where the module has shards."""
    made = saved.copy()  # with the modules' versions, which load_state_dict reads
    for name, like in live.items():
        if name in saved and isinstance(like, Tensor):
            made[name] = placed(saved[name], like)
    return made


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _restore_beside(module: nn.Module, name: str, saved: Tensor) -> None:
    """In place where it fits. Caches that grow with the longest input do not: they are replaced."""
    *path, leaf = name.split(".")
    home = module.get_submodule(".".join(path))
    there = getattr(home, leaf, None)
    if isinstance(there, Tensor) and described(there) == described(saved):
        there.copy_(saved)
        return
    device = there.device if isinstance(there, Tensor) else _device(module)
    home.register_buffer(leaf, saved.clone().to(device), persistent=False)


def _device(module: nn.Module) -> torch.device:
    return next((one.device for _, one in _tensors(module)), torch.device("cpu"))
