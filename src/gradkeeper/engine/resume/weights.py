"""Leave with your weights, arrive with those of others: the weights of a live model or of a save as
`checkpoint.weight_files` writes them, and a foreign recipe put into a run.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gradkeeper.checkpoint import ForeignError, WriteError
from gradkeeper.checkpoint.checkpoint import UnreadTensor, unread
from gradkeeper.checkpoint.foreign import Recipe
from gradkeeper.checkpoint.peers import Peers
from gradkeeper.checkpoint.storage import Storage
from gradkeeper.checkpoint.weight_files import (
    FORMS,
    SHARD_BYTES,
    Form,
    ModelWeights,
    NamedWeight,
    check,
    in_writing_order,
    is_one_file,
    write_dcp,
    write_safetensors,
)
from gradkeeper.engine.errors import EngineError, ResumeError, SetupError
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.resume.shards import covers, is_shard, put_together
from gradkeeper.engine.resume.stateful import (
    Loadable,
    ModuleState,
    OptimizerState,
    unwrapped,
    with_shards,
)
from gradkeeper.torch_private import WRAPPERS, is_sharded
from gradkeeper.tree import StateTree, cloned

# Leaving, from a live model


def own_name(name: str) -> str:
    return ".".join(word for word in name.split(".") if word not in WRAPPERS)


def weights_of(model: nn.Module) -> tuple[ModelWeights, list[str]]:
    """And what is no tensor and stays behind."""
    module = unwrapped(model)
    found: dict[str, tuple[Any, NamedWeight]] = {}
    left = []
    for name, value in module.state_dict(keep_vars=True).items():
        if not isinstance(value, Tensor):
            left.append(name)
            continue
        found[own_name(name)] = (
            _identity(value),
            NamedWeight(
                own_name(name),
                str(value.dtype).removeprefix("torch."),
                tuple(value.shape),
                value.itemsize,
                _reader(value),
                held=value.device.type == "cpu" and not is_sharded(value),
            ),
        )
    return _once(found, _hidden(module)), left


def _identity(tensor: Tensor) -> Any:
    """The same for tensors that are tied."""
    if is_sharded(tensor) or not tensor.numel():
        return id(tensor)
    memory = tensor.untyped_storage().data_ptr()
    return memory, tensor.storage_offset(), tensor.dtype, tensor.shape, tensor.stride()


def _reader(tensor: Any) -> Callable[[], Tensor]:
    def read() -> Tensor:
        with torch.no_grad():
            whole: Tensor = tensor.full_tensor() if is_sharded(tensor) else tensor
            return whole.detach().cpu()

    return read


def _hidden(module: nn.Module) -> set[str]:
    """Names that a Hugging Face model ties to others itself: those may be left out."""
    names: set[str] = set()
    for prefix, part in module.named_modules():
        tied = getattr(part, "_tied_weights_keys", None) or ()
        names |= {f"{prefix}.{name}" if prefix else str(name) for name in tied}
    return {own_name(name) for name in names}


def _once(found: Mapping[str, tuple[Any, NamedWeight]], hidden: set[str]) -> ModelWeights:
    """Of tied ones the first is written, or the first that the model does not tie by itself."""
    groups: dict[Any, list[str]] = {}
    for name, (identity, _) in found.items():
        groups.setdefault(identity, []).append(name)
    kept: dict[str, str] = {}
    for names in groups.values():
        first = next((name for name in names if name not in hidden), names[0])
        kept |= dict.fromkeys(names, first)
    written = [weight for name, (_, weight) in found.items() if kept[name] == name]
    return ModelWeights(written, {name: first for name, first in kept.items() if name != first})


# Leaving, from a save


def weights_in(storage: Storage, name: str, *, moved: bool, owner: str | None) -> ModelWeights:
    """Of a checkpoint that any number of ranks wrote."""
    parts = [part for part in unread(storage, name, moved=moved) if _has_owners(part)]
    if not parts:
        raise ForeignError(f"{name} was not saved by an engine: there are no weights in it")
    owners = parts[0]["owners"]
    if owner is None and len(owners) > 1:
        raise SetupError(f"it holds the models of {', '.join(owners)}: say which, with --owner")
    if owner is not None and owner not in owners:
        raise SetupError(f"it holds no model of {owner!r}; there are: {', '.join(owners)}")
    owner = owner or next(iter(owners))
    states = [part["owners"][owner]["model"]["state"] for part in parts]
    found = {}
    for key in states[0]:
        saved = [state[key] for state in states]
        made = _saved_weight(own_name(key), saved)
        if made is not None:
            found[own_name(key)] = made
    return _once(found, set())


def _has_owners(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("owners"), dict)


def _saved_weight(name: str, saved: list[Any]) -> tuple[Any, NamedWeight] | None:
    first = saved[0]
    if isinstance(first, UnreadTensor):
        view, shape = first.view, first.view.shape
        identity: Any = view
        read = first.read
    elif is_shard(first):
        view, shape = first["shard"].view, tuple(first["whole"])
        identity = tuple(shard["shard"].view for shard in saved)

        def read() -> Tensor:
            if not covers(saved):
                raise ForeignError(f"of {name} some ranks' parts are missing")
            return put_together([shard | {"shard": shard["shard"].read()} for shard in saved])

    else:
        return None
    itemsize = torch.empty(0, dtype=getattr(torch, view.dtype)).itemsize
    return identity, NamedWeight(name, view.dtype, shape, itemsize, read)


# Writing them, by one process or by several that hold a part each


def export(
    weights: ModelWeights,
    path: str | os.PathLike[str],
    *,
    to: Form,
    shard_bytes: int = SHARD_BYTES,
    overwrite: bool = False,
    peers: Peers | None = None,
) -> list[str]:
    """All peers call it, since each may hold a part of each weight; the first one writes."""
    if to not in FORMS:
        raise SetupError(f"to is {' or '.join(map(repr, FORMS))}, not {to!r}")
    if not isinstance(shard_bytes, int) or shard_bytes < 1:
        raise SetupError(f"shard_bytes is a number of bytes from 1 on, not {shard_bytes!r}")
    if peers is None or peers.size == 1:
        check(weights, path, overwrite=overwrite)
        return _write(weights, path, to, shard_bytes)
    return _export_together(weights, path, to, shard_bytes, overwrite=overwrite, peers=peers)


def _write(weights: ModelWeights, path: Any, to: Form, shard_bytes: int) -> list[str]:
    if to == "dcp":
        return write_dcp(weights, path)
    return write_safetensors(weights, path, shard_bytes=shard_bytes)


def _export_together(
    weights: ModelWeights,
    path: Any,
    to: Form,
    shard_bytes: int,
    *,
    overwrite: bool,
    peers: Peers,
) -> list[str]:
    """Should the writer fail, it still takes part in what the others gather: none waits for it."""
    whole = to == "dcp" or is_one_file(path)
    turns = Turns(in_writing_order(weights, None if whole else shard_bytes))
    files: list[str] = []
    failure: Exception | None = None
    if peers.rank == 0:
        try:
            check(weights, path, overwrite=overwrite)
            files = _write(turns.weights(weights), path, to, shard_bytes)
        except Exception as error:
            failure = error
    turns.take_rest()
    told = peers.gather([files, None if failure is None else str(failure)])
    if failure is not None:
        raise failure
    if told[0][1] is not None:
        raise WriteError(f"rank 0 failed: {told[0][1]}")
    written: list[str] = told[0][0]
    return written


class Turns:
    """Reads each weight once, in the order that all ranks share."""

    def __init__(self, order: list[NamedWeight]) -> None:
        self._left = {weight.name: weight for weight in order}

    def weights(self, weights: ModelWeights) -> ModelWeights:
        """The same, noted when they are read."""
        return ModelWeights([self._noted(weight) for weight in weights.written], weights.tied)

    def take_rest(self) -> None:
        for name in list(self._left):
            self._left.pop(name).read()

    def _noted(self, weight: NamedWeight) -> NamedWeight:
        def read() -> Tensor:
            return self._left.pop(weight.name).read()

        return replace(weight, read=read)


# Arriving


IMPORTED = 1


def imported_state(recipe: Recipe) -> StateTree:
    """What `gradkeeper checkpoint import` saves, and resume() knows."""
    return {"imported": IMPORTED, **vars(recipe)}


def is_imported(state: Any) -> bool:
    return isinstance(state, dict) and "imported" in state


def restore_imported(owners: Mapping[str, Owner], state: StateTree) -> list[str]:
    """Puts it into the run; what starts anew, because the file had nothing of it."""
    if state["imported"] != IMPORTED:
        raise ResumeError("this checkpoint was imported by a later version")
    if len(owners) > 1:
        raise EngineError(
            "an imported checkpoint holds one model and one optimizer, and this engine has several "
            "owners: load their state_dict()s before the engine is built"
        )
    owner = next(iter(owners.values()))
    Loadable(ImportedModule(owner.model), owner.name).restore(state["model"])
    missing = []
    if state["optimizer"] is None:
        missing.append("the optimizer")
    else:
        saved = {"state": by_number(state["optimizer"], owner), "elsewhere": {}}
        Loadable(OptimizerState(owner.optimizer, owner.model), owner.name).restore(saved)
    if owner.schedule.scheduler is not None:
        if state["scheduler"] is None:
            missing.append("the scheduler")
        else:
            owner.schedule.scheduler.load_state_dict(cloned(state["scheduler"]))
    if owner.precision.scaler and state["scaler"] is not None:
        owner.precision.restore({"scaler": state["scaler"], "overflows": 0})
    return missing


class ImportedModule(ModuleState):
    """By the model's own names, whatever the script had wrapped it in."""

    def restore(self, state: StateTree) -> None:
        module = unwrapped(self._module)
        live = module.state_dict(keep_vars=True)
        names = {own_name(name): name for name in live}
        given = _stripped(state, names)
        # Tied ones may be there once only.
        held = {id(value): given[name] for name, value in _own(live).items() if name in given}
        whole = {
            names[name]: given.get(name, held.get(id(value))) for name, value in _own(live).items()
        }
        fitting = {name: value for name, value in whole.items() if value is not None}
        strangers = {name: value for name, value in given.items() if name not in names}
        module.load_state_dict(with_shards(fitting | strangers, module.state_dict()))


def _own(live: StateTree) -> StateTree:
    return {own_name(name): value for name, value in live.items()}


def _stripped(state: StateTree, names: Mapping[str, str]) -> StateTree:
    """Without DDP's `module.` in front of each name, where the model has no such part."""
    cleaned = {own_name(name): value for name, value in state.items()}
    if cleaned and all(name.startswith("module.") for name in cleaned):
        if not any(name.startswith("module.") for name in names):
            return {name.removeprefix("module."): value for name, value in cleaned.items()}
    return cleaned


def by_number(saved: StateTree, owner: Owner) -> StateTree:
    """torch's own form. DCP's recipe has names in place of numbers."""
    groups = saved["param_groups"]
    used = [name for group in groups for name in group["params"]]
    if all(isinstance(name, int) for name in used):
        _refuse_other_sizes(groups, owner.optimizer.param_groups)
        return saved
    named = unwrapped(owner.model).named_parameters()
    own = {id(parameter): own_name(name) for name, parameter in named}
    live = [[own[id(p)] for p in group["params"]] for group in owner.optimizer.param_groups]
    then = [[own_name(str(name)) for name in group["params"]] for group in groups]
    if [set(names) for names in live] != [set(names) for names in then]:
        raise ResumeError(
            "the optimizer's groups hold other parameters than those of the imported one: build it "
            "with the same groups"
        )
    numbers = {name: number for number, name in enumerate(name for names in live for name in names)}
    state = {numbers[own_name(str(name))]: value for name, value in saved["state"].items()}
    renamed = [
        group | {"params": [numbers[name] for name in names]}
        for group, names in zip(groups, live, strict=True)
    ]
    return {"state": state, "param_groups": renamed}


def _refuse_other_sizes(then: list[StateTree], now: list[StateTree]) -> None:
    """Numbers are all that there is to know them by."""
    sizes, own = ([len(group["params"]) for group in groups] for groups in (then, now))
    if sizes != own:
        raise ResumeError(
            f"the optimizer has groups of {_listed(own)} parameters, and the imported one of "
            f"{_listed(sizes)}: build it with the same groups, or import the weights alone"
        )


def _listed(sizes: list[int]) -> str:
    return " and ".join(map(str, sizes))
