"""What the user names to be kept too: anything with a state to ask for and to give back."""

import random
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.resume.modules import module_state, restore_module
from gradkeeper.engine.resume.optimizers import optimizer_state, restore_optimizer
from gradkeeper.tree import cloned


class Tracked(Protocol):
    def state(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


class ByStateDict:
    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def state(self) -> Any:
        return self._thing.state_dict()

    def restore(self, state: Any) -> None:
        self._thing.load_state_dict(cloned(state))


class TrackedModule:
    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def state(self) -> Any:
        return module_state(self._module)

    def restore(self, state: Any) -> None:
        restore_module(self._module, state)


class TrackedOptimizer:
    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def state(self) -> Any:
        return optimizer_state(self._optimizer)

    def restore(self, state: Any) -> None:
        restore_optimizer(self._optimizer, state)


class TorchGenerator:
    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def state(self) -> Any:
        return self._generator.get_state()

    def restore(self, state: Any) -> None:
        self._generator.set_state(state)


class PythonGenerator:
    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def state(self) -> Any:
        return self._generator.getstate()

    def restore(self, state: Any) -> None:
        self._generator.setstate(state)


class NumpyGenerator:
    def __init__(self, generator: Any) -> None:
        self._bits = generator.bit_generator

    def state(self) -> Any:
        return self._bits.state

    def restore(self, state: Any) -> None:
        self._bits.state = state


class Container:
    """A list or a dict, filled again in place: a history of losses, the best score so far."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def state(self) -> Any:
        return self._container.copy()

    def restore(self, state: Any) -> None:
        self._container.clear()
        update = getattr(self._container, "update", None) or self._container.extend
        update(cloned(state))


def tracked(name: str, thing: Any) -> Tracked:
    match thing:
        case nn.Module():
            return TrackedModule(thing)
        case Optimizer():
            return TrackedOptimizer(thing)
        case torch.Generator():
            return TorchGenerator(thing)
        case random.Random():
            return PythonGenerator(thing)
    if hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict"):
        return ByStateDict(thing)
    if hasattr(thing, "bit_generator"):
        return NumpyGenerator(thing)
    if type(thing) in (list, dict):
        return Container(thing)
    raise SetupError(
        f"{name!r} cannot be tracked: {type(thing).__name__} has no state_dict() and "
        "load_state_dict(). Lists, dicts and random generators can be tracked as they are"
    )
