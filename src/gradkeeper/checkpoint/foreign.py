"""Checkpoints that others wrote, read without running what is in them: torch.save, DCP, and
safetensors as Hugging Face lays them out, with what its trainers save beside them.

What is found in there is told apart by its shape, not by its name: a model's state is a dict of
tensors, an optimizer's has `state` and `param_groups`.
"""

import io
import json
import os
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradkeeper.checkpoint.errors import ForeignError, MissingError, UnreadableError
from gradkeeper.checkpoint.weight_files import FILE, INDEX, mapped_file
from gradkeeper.tree import StateTree

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import Metadata

METADATA = ".metadata"
# All that the metadata of a DCP folder is made of; torch's own reader would load any class.
PLAIN = {
    "collections": {"OrderedDict"},
    "torch": {"Size", "device"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo", "_StoragePrefix"},
    "pathlib": {"Path", "PosixPath", "PurePosixPath"},
}


@dataclass(frozen=True)
class Recipe:
    """What a training script saved, as far as it can be gone on with."""

    model: StateTree
    optimizer: StateTree | None
    scheduler: StateTree | None
    scaler: StateTree | None

    @property
    def holds(self) -> list[str]:
        return [name for name, part in vars(self).items() if part is not None]


def read_foreign(
    path: str | os.PathLike[str], *, model: str | None = None, optimizer: str | None = None
) -> Recipe:
    """`model`, `optimizer`: under which names they are, where more than one could be meant."""
    found = Path(path)
    if not found.exists():
        raise MissingError(f"{found}: there is no such file or folder")
    if not os.access(found, os.R_OK):
        raise UnreadableError(f"{found} cannot be read: permission denied")
    return recipe_in(_read(found), str(found), model=model, optimizer=optimizer)


def _read(path: Path) -> Any:
    if path.suffix == ".safetensors" and path.is_file():
        return read_safetensors([path])
    if path.is_file():
        return read_torch(path)
    if (path / METADATA).is_file():
        return read_dcp(path)
    if (path / INDEX).is_file() or (path / FILE).is_file():
        return {"model": read_safetensors(_files_in(path)), **_beside(path)}
    raise ForeignError(f"{path} is no checkpoint of DCP or Hugging Face: no {METADATA}, no {FILE}")


def _beside(weights: Path) -> StateTree:
    """As transformers' Trainer (.pt) and Accelerate (.bin) save the rest of a run."""
    files = [
        file
        for kind in ("optimizer", "scheduler", "scaler")
        for file in (weights / f"{kind}.pt", weights / f"{kind}.bin")
        if file.is_file()
    ]
    return {file.name: read_torch(file) for file in files}


def _files_in(folder: Path) -> list[Path]:
    if not (folder / INDEX).is_file():
        return [folder / FILE]
    try:
        places = json.loads((folder / INDEX).read_text())["weight_map"]
        names = sorted(set(places.values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ForeignError(f"{folder / INDEX} is no index of weights: {error}") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise ForeignError(f"{folder / INDEX} names {name!r}, which is no file of its folder")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ForeignError(f"{folder / INDEX} names {missing[0]}, which is not there")
    return [folder / name for name in names]


def read_safetensors(paths: list[Path]) -> Any:
    whole: StateTree = {}
    for path in paths:
        try:
            whole |= mapped_file(path)
        except Exception as error:
            raise ForeignError(f"{path} is no whole file of safetensors{_reason(error)}") from error
    return whole


def read_torch(path: Path) -> Any:
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of protocols that it may not know: it knows or fails
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever bytes that mean nothing lead to
        if _asked_for(error) is not None:
            raise UnreadableError(_needs_pickle(path, error)) from None
        raise ForeignError(f"{path} is no whole file of torch.save{_reason(error)}") from error


def _needs_pickle(path: Path, error: BaseException) -> str:
    return (
        f"{path} needs pickle, which may run whatever its author wrote: it asks for "
        f"{_asked_for(error)}. Where you trust it, load it yourself and save the state_dict() of "
        "model and optimizer only"
    )


def _asked_for(error: BaseException) -> str | None:
    """Out of torch's words, without its advice to trust it."""
    named = re.search(r"GLOBAL (\S+)", str(error))
    return None if named is None else named[1]


def _reason(error: BaseException) -> str:
    """The first sentence of what another library says, if it says anything."""
    if isinstance(error, LookupError):
        return ""  # what was looked up tells nobody anything
    first = re.split(r"\.\s|\n", str(error), maxsplit=1)[0].strip(". ")
    return f": {first}" if first else ""


def read_dcp(folder: Path) -> Any:
    """As it was saved, nested as it was."""
    import torch
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.planner import ReadItem
    from torch.distributed.checkpoint.state_dict_loader import load

    metadata: Metadata = _metadata(folder / METADATA)

    class PlainReader(FileSystemReader):
        def read_metadata(self, *args: Any, **options: Any) -> "Metadata":
            return metadata

    class Planner(DefaultLoadPlanner):
        def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
            name = read_item.dest_index.fqn
            self.state_dict[name] = torch.load(value, map_location="cpu", weights_only=True)

    flat: StateTree = {}
    for name, facts in metadata.state_dict_metadata.items():
        if isinstance(facts, TensorStorageMetadata):
            flat[name] = torch.empty(facts.size, dtype=facts.properties.dtype)
        else:
            flat[name] = b""
    try:
        planner = Planner(flatten_state_dict=False, flatten_sharded_tensors=False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            load(flat, storage_reader=PlainReader(folder), planner=planner, no_dist=True)
    except CheckpointException as error:
        cause = next((first for first, _ in error.failures.values()), error)
        if _asked_for(cause) is not None:
            raise UnreadableError(_needs_pickle(folder, cause)) from None
        raise UnreadableError(f"{folder} is no whole checkpoint of DCP{_reason(cause)}") from error
    except Exception as error:
        raise UnreadableError(f"{folder} is no whole checkpoint of DCP{_reason(error)}") from error
    return _nested(flat, metadata.planner_data or {})


class _Metadata(pickle.Unpickler):
    """Makes what DCP's metadata is made of, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        import torch

        if name in PLAIN.get(module, ()):
            return super().find_class(module, name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        raise UnknownClassError(f"{module}.{name}")


class UnknownClassError(Exception):
    """That DCP's metadata is not made of."""


def _metadata(path: Path) -> Any:
    try:
        with open(path, "rb") as stream:
            return _Metadata(stream).load()
    except UnknownClassError as error:
        raise UnreadableError(
            f"{path} is no metadata of DCP: it asks for {error}, which is not made here"
        ) from None
    except Exception as error:
        raise ForeignError(f"{path} is no metadata of DCP{_reason(error)}") from error


def _nested(flat: StateTree, paths: Mapping[str, tuple[Any, ...]]) -> StateTree:
    """DCP saves a nested dict under joined names, and keeps the way to each."""
    whole: StateTree = {}
    for name, value in flat.items():
        path = paths.get(name) or (name,)
        inside: Any = whole
        for key, after in zip(path, (*path[1:], None), strict=True):
            last = after is None
            made = value if last else ([] if isinstance(after, int) else {})
            if isinstance(inside, list):
                inside.extend([None] * (key + 1 - len(inside)))
                if last or inside[key] is None:
                    inside[key] = made
            elif last or key not in inside:
                inside[key] = made
            inside = inside[key]
    return whole


def recipe_in(
    state: Any, where: str, *, model: str | None = None, optimizer: str | None = None
) -> Recipe:
    if not isinstance(state, Mapping):
        raise ForeignError(f"{where} holds a {type(state).__name__}, and no dict of states")
    found: dict[str, StateTree] = {kind: {} for kind in KINDS}
    for name, kind, part in _states_in(state):
        found[kind][name] = part
    chosen = _chosen(_likeliest(found["model"]), "model", model, where)
    if chosen is None:
        raise ForeignError(f"{where} holds no model's state: a dict of tensors by name")
    spending = _chosen(found["optimizer"], "optimizer", optimizer, where)
    return Recipe(
        chosen,
        None if spending is None else _unflattened(spending),
        next(iter(found["scheduler"].values()), None),
        next(iter(found["scaler"].values()), None),
    )


KINDS = ("model", "optimizer", "scheduler", "scaler")


def _states_in(state: Any, name: str = "") -> Iterator[tuple[str, str, StateTree]]:
    """With the way to each, in words joined by dots: recipes wrap them in one another, as torch's
    own for DCP does, or keep them in lists, as Lightning does."""
    kind = _kind_of(state)
    if kind is not None:
        yield name, kind, dict(state)
        return
    beside = _tensors_of(state) if isinstance(state, Mapping) and not name else {}
    if beside:
        yield "", "model", beside  # on top, as torchtitan keeps them
    for key, part in _parts_of(state):
        yield from _states_in(part, f"{name}.{key}" if name else str(key))


def _parts_of(state: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(state, Mapping):
        yield from state.items()
    elif isinstance(state, list | tuple):
        yield from enumerate(state)


def _kind_of(part: Any) -> str | None:
    if not isinstance(part, Mapping) or not part:
        return None
    if {"state", "param_groups"} <= part.keys() or _is_flat(part):
        return "optimizer"
    if {"last_epoch", "base_lrs"} <= part.keys():
        return "scheduler"
    if {"scale", "growth_factor"} <= part.keys():
        return "scaler"
    return "model" if len(_tensors_of(part)) == len(part) else None


def _tensors_of(part: Mapping[Any, Any]) -> StateTree:
    import torch

    return {
        name: value
        for name, value in part.items()
        if isinstance(name, str) and isinstance(value, torch.Tensor)
    }


def _likeliest(models: Mapping[str, StateTree]) -> Mapping[str, StateTree]:
    """Those with a matrix of weights, if there are any: generators and losses are tensors too."""
    weighty = {
        name: state
        for name, state in models.items()
        if any(tensor.is_floating_point() and tensor.dim() > 1 for tensor in state.values())
    }
    return weighty or models


FLAT = re.compile(r"(state|param_groups)\.(.+)\.([^.]+)")
"""Each value of an optimizer under a name of its own, as torch does it where it is asked to
(flatten_optimizer_state_dict), and torchtitan always."""


def _is_flat(part: Mapping[Any, Any]) -> bool:
    return all(isinstance(name, str) and FLAT.fullmatch(name) for name in part)


def _unflattened(part: StateTree) -> StateTree:
    """Which group a parameter was in is not said: those with the same settings were in one."""
    if not _is_flat(part):
        return part
    kept: dict[str, dict[str, StateTree]] = {"state": {}, "param_groups": {}}
    for name, value in part.items():
        where, parameter, entry = FLAT.fullmatch(name).groups()  # type: ignore[union-attr]
        kept[where].setdefault(parameter, {})[entry] = value
    groups: dict[str, StateTree] = {}
    for parameter, settings in kept["param_groups"].items():
        group = groups.setdefault(repr(sorted(settings.items())), settings | {"params": []})
        group["params"].append(parameter)
    return {"state": kept["state"], "param_groups": list(groups.values())}


def _chosen(
    candidates: Mapping[str, StateTree], kind: str, wanted: str | None, where: str
) -> StateTree | None:
    names = ", ".join(map(repr, candidates))
    if wanted is not None:
        if wanted not in candidates:
            raise ForeignError(f"{where} holds no {kind} under {wanted!r}; there is: {names}")
        return candidates[wanted]
    if len(candidates) > 1:
        raise ForeignError(
            f"{where} holds several that may be the {kind}: {names}; say which, with --{kind} NAME"
        )
    return next(iter(candidates.values()), None)
