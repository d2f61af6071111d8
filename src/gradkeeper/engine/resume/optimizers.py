"""An optimizer's state, back as exactly as it was.

Optimizer.load_state_dict casts what it loads to the parameters' dtype and device: moments kept in
float32 beside bfloat16 weights would be rounded, counters become floats. So what it loaded is
replaced by what was saved, unless the optimizer loads in a way of its own.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradkeeper.engine.resume.sharded import placed
from gradkeeper.tree import cloned

State = dict[str, Any]


def optimizer_state(optimizer: Optimizer) -> State:
    return {"state": optimizer.state_dict(), "elsewhere": _elsewhere(optimizer)}


def restore_optimizer(optimizer: Optimizer, state: State) -> None:
    saved = _placed(state["state"], _parameters(optimizer))
    held = [_tensors_of(group) for group in optimizer.param_groups]
    optimizer.load_state_dict(cloned(saved))
    if type(optimizer).load_state_dict is Optimizer.load_state_dict:
        for number, parameter in enumerate(_parameters(optimizer)):
            if number in saved["state"]:
                places = state["elsewhere"].get(number, {})
                optimizer.state[parameter] = _exact(
                    saved["state"][number], optimizer.state[parameter], places
                )
    for group, tensors in zip(optimizer.param_groups, held, strict=True):
        _put_back(group, tensors)


def optimizer_shape(optimizer: Optimizer, names: Mapping[int, str]) -> State:
    """What must be equal on resume; `names` are the parameters', by their id."""
    kind = type(optimizer)
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "groups": [
            {
                "parameters": [names.get(id(one), "?") for one in group["params"]],
                "hyperparameters": sorted(str(key) for key in group if key != "params"),
            }
            for group in optimizer.param_groups
        ],
    }


def _exact(saved: Any, loaded: Any, places: Mapping[Any, str]) -> Any:
    match saved:
        case Tensor():
            device = loaded.device if isinstance(loaded, Tensor) else saved.device
            return saved.detach().clone().to(device)
        case dict() if isinstance(loaded, dict):
            made = {key: _exact(one, loaded.get(key), {}) for key, one in saved.items()}
            return made | {key: made[key].to(place) for key, place in places.items()}
        case list() if isinstance(loaded, list):
            return [_exact(one, other, {}) for one, other in zip(saved, loaded, strict=True)]
    return loaded


def _elsewhere(optimizer: Optimizer) -> dict[int, dict[str, str]]:
    """State that is not on its parameter's device: Adam counts its steps on the host."""
    found = {}
    for number, parameter in enumerate(_parameters(optimizer)):
        state = optimizer.state.get(parameter, {})
        away = {
            key: str(value.device)
            for key, value in state.items()
            if isinstance(value, Tensor) and value.device != parameter.device
        }
        if away:
            found[number] = away
    return found


def _placed(saved: State, parameters: list[Tensor]) -> State:
    """Moments of sharded parameters are sharded as these are."""
    per_parameter = {
        number: {key: placed(value, parameters[number]) for key, value in one.items()}
        if isinstance(one, dict) and isinstance(number, int) and number < len(parameters)
        else one
        for number, one in saved["state"].items()
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


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [one for group in optimizer.param_groups for one in group["params"]]
