"""All that is kept of a run: its owners, what the user tracks, random numbers, its place; and how a
checkpoint differs from the run that would go on from it."""

import random
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from gradkeeper import rng
from gradkeeper.engine.errors import ResumeError, SetupError
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.engine.resume.shards import unsharded
from gradkeeper.engine.resume.stateful import (
    ModuleState,
    Named,
    OptimizerState,
    Stateful,
    owner_state,
    restore_beside,
    unwrapped,
    with_own_names,
)
from gradkeeper.tree import NOTHING, StateTree, cloned, differences

# What the user names to be kept too: anything with a state to ask for and to give back.


class ByStateDict(Stateful):
    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def state(self) -> Any:
        return self._thing.state_dict()

    def restore(self, state: Any) -> None:
        self._thing.load_state_dict(cloned(state))


class GeneratorState(Stateful):
    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def state(self) -> Any:
        return rng.own_state(self._generator)

    def restore(self, state: Any) -> None:
        rng.set_own_state(self._generator, state)


class Container(Stateful):
    """A list or a dict, filled again in place: a history of losses, the best score so far."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def state(self) -> Any:
        return self._container.copy()

    def restore(self, state: Any) -> None:
        self._container.clear()
        update = getattr(self._container, "update", None) or self._container.extend
        update(cloned(state))


def tracked(name: str, thing: Any) -> Stateful:
    match thing:
        case nn.Module():
            return ModuleState(thing)
        case Optimizer():
            return OptimizerState(thing)
        case torch.Generator() | random.Random():
            return GeneratorState(thing)
    if hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict"):
        return ByStateDict(thing)
    if hasattr(thing, "bit_generator"):
        return GeneratorState(thing)
    if type(thing) in (list, dict):
        return Container(thing)
    raise SetupError(
        f"{name!r} cannot be tracked: {type(thing).__name__} has no state_dict() and "
        "load_state_dict(). Lists, dicts and random generators can be tracked as they are"
    )


class Tracked(Stateful):
    """All of them by name. What was loaded under a name that nobody has tracked yet waits."""

    def __init__(self, owners: Mapping[str, Owner]) -> None:
        self._owners = owners
        self._things: dict[str, Stateful] = {}
        self._unclaimed: StateTree = {}

    def add(self, name: str, thing: Any) -> None:
        if name in self._things:
            raise SetupError(f"{name!r} is tracked already: each name stands for one object")
        self._things[name] = tracked(name, thing)
        if name in self._unclaimed:
            self._restore(name, self._unclaimed.pop(name))

    def state(self) -> StateTree:
        return self._unclaimed | Named(self._things).state()

    def restore(self, state: StateTree) -> None:
        for name in self._things:
            self._restore(name, state[name])
        self._unclaimed = {name: saved for name, saved in state.items() if name not in self._things}

    def missing(self, state: StateTree) -> list[str]:
        """Those that the state holds nothing of."""
        return sorted(self._things.keys() - state.keys())

    def _restore(self, name: str, state: Any) -> None:
        first = next(iter(self._owners.values()))
        meshes = [getattr(p, "device_mesh", None) for p in parameters_of(first.optimizer)]
        by_dimensions = {mesh.ndim: mesh for mesh in reversed(meshes) if mesh is not None}
        self._things[name].restore(unsharded(state, by_dimensions))


# What all ranks share but for these: random numbers, and buffers where weights are copies.


class RandomNumbers(Stateful):
    """Of the process's own generators."""

    def state(self) -> StateTree:
        return rng.state()

    def restore(self, state: StateTree | None) -> None:
        """None: a rank that there was not before keeps its own."""
        if state is not None:
            rng.restore(state)


class Buffers(Stateful):
    """Replicas have the same weights, but normalise by what each of them has seen: the buffers of
    a rank whose weights another one saves."""

    def __init__(self, owners: Mapping[str, Owner]) -> None:
        self._models = {name: unwrapped(owner.model) for name, owner in owners.items()}

    def state(self) -> StateTree:
        return {
            name: {key: buffer.detach() for key, buffer in model.named_buffers()}
            for name, model in self._models.items()
        }

    def restore(self, state: StateTree | None) -> None:
        """None: they came with the weights."""
        with torch.no_grad():
            for name, buffers in (state or {}).items():
                model = self._models[name]
                for key, saved in with_own_names(buffers, buffers, model).items():
                    restore_beside(model, key, saved)


# How a checkpoint differs from the run that would go on from it, in words.


MOST = 12


def refuse_difference(what: str, saved: Any, here: Any) -> None:
    """Raises if the two descriptions differ, and says where."""
    lines = [
        f"{path}: {_word(before)} in the checkpoint, {_word(other)} here"
        for path, before, other in differences(saved, here)
    ]
    if not lines:
        return
    shown = "".join(f"\n  {line}" for line in lines[:MOST])
    more = f"\n  and {len(lines) - MOST} more" if len(lines) > MOST else ""
    raise ResumeError(f"{what}:{shown}{more}")


def _word(value: Any) -> str:
    if value is NOTHING:
        return "nothing"
    if isinstance(value, list) and not all(isinstance(item, str | int) for item in value):
        return f"{len(value)} of them"
    if isinstance(value, list | tuple):
        text = ", ".join(str(item) for item in value)
    else:
        text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# All that is kept of a run, by name: a save maps over it, a resume too, in two goes. Owners, what
# is tracked and the ranks come back at once; the place in the program when that has come there.


FORMAT = 1


class FormatNumber(Stateful):
    """Which version of the engine can read it."""

    def state(self) -> int:
        return FORMAT

    def restore(self, state: int) -> None:
        return


class WrittenSignature(Stateful):
    """What must be equal on resume, written down to be compared before anything is restored."""

    def __init__(self, owners: Named) -> None:
        self._owners = owners

    def state(self) -> StateTree:
        return self._owners.signature

    def restore(self, state: StateTree) -> None:
        return


class KeptState(Stateful):
    def __init__(
        self, owners: Mapping[str, Owner], place: Mapping[str, Stateful], ranks: Stateful
    ) -> None:
        """`place`: what tells where the program is."""
        self.owners = owners
        self.tracked = Tracked(owners)
        self.buffers = Buffers(owners)
        kept = Named({name: owner_state(owner) for name, owner in owners.items()})
        self._shape = WrittenSignature(kept)
        self._all = Named(
            {
                "rng": RandomNumbers(),
                "engine": FormatNumber(),
                "shape": self._shape,
                "owners": kept,
                "tracked": self.tracked,
                **place,
                "ranks": ranks,
            }
        )
        self._at_once = Named(
            {"owners": kept, "buffers": self.buffers, "tracked": self.tracked, "ranks": ranks}
        )

    @property
    def steps(self) -> int:
        """Of the owner that has taken the most."""
        return max(owner.steps for owner in self.owners.values())

    def state(self) -> StateTree:
        return self._all.state()

    def check(self, state: Any) -> None:
        """ResumeError, with the difference, if it is another run's."""
        if not isinstance(state, dict) or state.get("engine") != FORMAT:
            raise ResumeError("this state was not made by this version of the engine")
        saved = {name: self._with_own_names(name, shape) for name, shape in state["shape"].items()}
        refuse_difference("the checkpoint is of another run", saved, self._shape.state())
        missing = self.tracked.missing(state["tracked"])
        if missing:
            names = ", ".join(missing)
            raise ResumeError(f"the checkpoint holds nothing of what is tracked here: {names}")

    def _with_own_names(self, owner: str, shape: StateTree) -> StateTree:
        if owner not in self.owners:
            return shape
        names = shape["model"]["parameters"]
        own: StateTree = with_own_names(shape, names, unwrapped(self.owners[owner].model))
        return own

    def restore(self, state: StateTree) -> None:
        """All but the place in the program."""
        self._at_once.restore({"buffers": None, **state})
