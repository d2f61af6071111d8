"""What is kept, by one protocol: read, put back, compared. A model, an optimizer, a scheduler."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from gradkeeper.checkpoint import UnkeepableError
from gradkeeper.engine.errors import ResumeError
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.engine.resume.shards import placed
from gradkeeper.torch_private import compiled
from gradkeeper.tree import StateTree, cloned


class Stateful(Protocol):
    """Something that is kept: a save maps `state` over all of them, a resume `restore`, and what
    must be the same before that is compared by `signature`. What each of them is on another number
    of ranks, elastic.py says."""

    def state(self) -> Any:
        """In plain values and tensors; live ones, which are copied where they are written."""

    def restore(self, state: Any) -> None: ...

    @property
    def signature(self) -> Any:
        """What must be equal on resume; None where nothing must."""
        return None


class Named(Stateful):
    """Several by name, put back in their order."""

    def __init__(self, parts: Mapping[str, Stateful]) -> None:
        self.parts = parts

    def state(self) -> StateTree:
        return {name: part.state() for name, part in self.parts.items()}

    def restore(self, state: StateTree) -> None:
        for name, part in self.parts.items():
            part.restore(state[name])

    @property
    def signature(self) -> StateTree:
        known = {name: part.signature for name, part in self.parts.items()}
        return {name: signature for name, signature in known.items() if signature is not None}


# A module's state: what its state_dict holds, and what it leaves out though results depend on it.
#
# Left out are buffers that are not persistent, which parameters are frozen, and which layers are in
# eval mode: a run that unfreezes its trunk at step 100 goes on from step 150 with a thawed one.


def layers_of(module: nn.Module) -> list[nn.Module]:
    """A model as it was handed over, then what each wrapper around it holds."""
    layers = [module]
    while True:
        last = layers[-1]
        inner = last.module if isinstance(last, DistributedDataParallel) else compiled(last)
        if not isinstance(inner, nn.Module):
            return layers
        layers.append(inner)


def unwrapped(module: nn.Module) -> nn.Module:
    """Without DDP and torch.compile, which hold no state: the same run may go on without them."""
    return layers_of(module)[-1]


def is_compiled(module: nn.Module) -> bool:
    return any(compiled(layer) is not None for layer in layers_of(module))


COMPILED = "_orig_mod."
"""Before 0.2.0, names were kept with what torch.compile puts in front of them."""


def with_own_names(saved: Any, names: Iterable[str], module: nn.Module) -> Any:
    """`names`: by which `saved` calls the tensors of this module."""
    names = list(names)
    if not names or not all(name.startswith(COMPILED) for name in names):
        return saved
    live = module.state_dict()
    outer = f"{COMPILED}module."  # compiled around DDP
    return _without(outer if all(n.removeprefix(outer) in live for n in names) else COMPILED, saved)


def _without(prefix: str, value: Any) -> Any:
    """In front of every key and word; of a module's own name it is all."""
    match value:
        case str():
            return f"{value}.".removeprefix(prefix).removesuffix(".")
        case list():
            return [_without(prefix, part) for part in value]
        case dict():
            made: Any = type(value)(
                (_without(prefix, key), _without(prefix, part)) for key, part in value.items()
            )
            if hasattr(value, "_metadata"):
                made._metadata = _without(prefix, value._metadata)
            return made
    return value


class ModuleState(Stateful):
    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def state(self) -> StateTree:
        module = unwrapped(self._module)
        state = module.state_dict()
        return {
            "state": state,
            "beside": {
                name: tensor.detach() for name, tensor in _tensors(module) if name not in state
            },
            "frozen": [name for name, p in module.named_parameters() if not p.requires_grad],
            "evaluating": [name for name, part in module.named_modules() if not part.training],
        }

    def restore(self, state: StateTree) -> None:
        *wrappers, module = layers_of(self._module)
        state = with_own_names(state, state["state"], module)
        module.load_state_dict(with_shards(state["state"], module.state_dict()))
        with torch.no_grad():
            for name, saved in state["beside"].items():
                restore_beside(module, name, saved)
        frozen, evaluating = set(state["frozen"]), set(state["evaluating"])
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name not in frozen)
        for name, part in module.named_modules():
            part.training = name not in evaluating
        for wrapper in wrappers:
            wrapper.training = module.training

    @property
    def signature(self) -> StateTree:
        module = unwrapped(self._module)
        state = module.state_dict()
        persistent = {name: buffer for name, buffer in module.named_buffers() if name in state}
        return {
            "parameters": {name: described(tensor) for name, tensor in module.named_parameters()},
            "buffers": {name: described(tensor) for name, tensor in persistent.items()},
        }


def described(tensor: Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if is_lazy(tensor):
        return f"{dtype}, not initialised: run a batch through lazy layers first"
    return f"{dtype}{list(tensor.shape)}"


def with_shards(saved: StateTree, live: StateTree) -> StateTree:
    """Shards where the module has shards."""
    made = saved.copy()  # with the modules' versions, which load_state_dict reads
    for name, like in live.items():
        if name in saved and isinstance(like, Tensor):
            made[name] = placed(saved[name], like)
    return made


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def restore_beside(module: nn.Module, name: str, saved: Tensor) -> None:
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
    return next((tensor.device for _, tensor in _tensors(module)), torch.device("cpu"))


# An optimizer's state, back as exactly as it was.
#
# Optimizer.load_state_dict casts what it loads to the parameters' dtype and device: moments kept in
# float32 beside bfloat16 weights would be rounded, counters become floats. So what it loaded is
# replaced by what was saved, unless the optimizer loads in a way of its own.


class OptimizerState(Stateful):
    def __init__(self, optimizer: Optimizer, model: nn.Module | None = None) -> None:
        """`model`: whose names its parameters have."""
        self._optimizer = optimizer
        self._model = model

    def state(self) -> StateTree:
        return {"state": self._optimizer.state_dict(), "elsewhere": _elsewhere(self._optimizer)}

    def restore(self, state: StateTree) -> None:
        optimizer = self._optimizer
        saved = _with_sharded_moments(state["state"], parameters_of(optimizer))
        held = [_tensors_of(group) for group in optimizer.param_groups]
        optimizer.load_state_dict(cloned(saved))
        if type(optimizer).load_state_dict is Optimizer.load_state_dict:
            for number, parameter in enumerate(parameters_of(optimizer)):
                if number in saved["state"]:
                    places = state["elsewhere"].get(number, {})
                    optimizer.state[parameter] = _exact(
                        saved["state"][number], optimizer.state[parameter], places
                    )
        for group, tensors in zip(optimizer.param_groups, held, strict=True):
            _put_back(group, tensors)

    @property
    def signature(self) -> StateTree:
        known = [] if self._model is None else unwrapped(self._model).named_parameters()
        names = {id(parameter): name for name, parameter in known}
        kind = type(self._optimizer)
        return {
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "groups": [
                {
                    "parameters": [names.get(id(parameter), "?") for parameter in group["params"]],
                    "hyperparameters": sorted(str(key) for key in group if key != "params"),
                }
                for group in self._optimizer.param_groups
            ],
        }


def _exact(saved: Any, loaded: Any, places: Mapping[Any, str]) -> Any:
    match saved:
        case Tensor():
            device = loaded.device if isinstance(loaded, Tensor) else saved.device
            return saved.detach().clone().to(device)
        case dict() if isinstance(loaded, dict):
            made = {key: _exact(part, loaded.get(key), {}) for key, part in saved.items()}
            return made | {key: made[key].to(place) for key, place in places.items()}
        case list() if isinstance(loaded, list):
            return [_exact(part, other, {}) for part, other in zip(saved, loaded, strict=True)]
    return loaded


def _elsewhere(optimizer: Optimizer) -> dict[int, dict[str, str]]:
    """State that is not on its parameter's device: Adam counts its steps on the host."""
    found = {}
    for number, parameter in enumerate(parameters_of(optimizer)):
        state = optimizer.state.get(parameter, {})
        away = {
            key: str(value.device)
            for key, value in state.items()
            if isinstance(value, Tensor) and value.device != parameter.device
        }
        if away:
            found[number] = away
    return found


def _with_sharded_moments(saved: StateTree, parameters: list[Tensor]) -> StateTree:
    """Moments of sharded parameters are sharded as these are."""
    per_parameter = {
        number: {key: placed(value, parameters[number]) for key, value in moments.items()}
        if isinstance(moments, dict) and isinstance(number, int) and number < len(parameters)
        else moments
        for number, moments in saved["state"].items()
    }
    return saved | {"state": per_parameter}


def _tensors_of(group: Mapping[str, Any]) -> dict[str, Tensor]:
    return {key: value for key, value in group.items() if isinstance(value, Tensor)}


def _put_back(group: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Rates that are tensors stay the same tensors: compiled steps and schedulers hold them."""
    with torch.no_grad():
        for key, tensor in tensors.items():
            loaded = group.get(key)
            if isinstance(loaded, Tensor) and loaded.dtype == tensor.dtype:
                group[key] = tensor.copy_(loaded)


# One owner's state: its model, optimizer, scheduler and scaler, and how often it has stepped.


def owner_state(owner: Owner) -> Named:
    return Named(
        {
            "model": Loadable(ModuleState(owner.model), owner.name),
            "optimizer": Loadable(OptimizerState(owner.optimizer, owner.model), owner.name),
            # After the optimizer, whose groups hold what the scheduler wrote there.
            "scheduler": SchedulerState(owner),
            "precision": owner.precision,
            "steps": StepCount(owner),
        }
    )


class Loadable(Stateful):
    """Torch's own words for what does not fit, with the owner's name."""

    def __init__(self, part: Stateful, owner: str) -> None:
        self._part = part
        self._owner = owner

    def state(self) -> Any:
        return self._part.state()

    def restore(self, state: Any) -> None:
        try:
            self._part.restore(state)
        except (RuntimeError, ValueError, KeyError, AttributeError) as error:
            raise ResumeError(f"the state of {self._owner!r} cannot be loaded: {error}") from error

    @property
    def signature(self) -> Any:
        return self._part.signature


class SchedulerState(Stateful):
    def __init__(self, owner: Owner) -> None:
        self._scheduler = owner.schedule.scheduler
        self._owner = owner.name

    def state(self) -> Any:
        scheduler = self._scheduler
        if scheduler is None:
            return None
        if not hasattr(scheduler, "state_dict") or not hasattr(scheduler, "load_state_dict"):
            raise UnkeepableError(
                f"the scheduler of {self._owner!r}, a {type(scheduler).__name__}, has no "
                "state_dict() and load_state_dict(): it cannot be kept"
            )
        return scheduler.state_dict()

    def restore(self, state: Any) -> None:
        if self._scheduler is not None:
            self._scheduler.load_state_dict(cloned(state))

    @property
    def signature(self) -> str:
        return "none" if self._scheduler is None else type(self._scheduler).__qualname__


class StepCount(Stateful):
    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def state(self) -> int:
        return self._owner.steps

    def restore(self, state: int) -> None:
        self._owner.steps = state
