"""Checkpoints that others wrote, read without running what is in them: torch.save, and DCP.

What is found in there is told apart by its shape, not by its name: a model's state is a dict of
tensors, an optimizer's has `state` and `param_groups`.
"""

import io
import os
import pickle
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradkeeper.checkpoint.errors import ForeignError, MissingError, UnreadableError
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
    state = read_dcp(found) if found.is_dir() else read_torch(found)
    return recipe_in(state, str(found), model=model, optimizer=optimizer)


def read_torch(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UnreadableError(
            f"{path} needs pickle, which may run whatever its author wrote: {_needed(error)}. "
            "Where you trust it, load it yourself and save the state_dict() of model and optimizer "
            "only"
        ) from None
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ForeignError(f"{path} was not written by torch.save: {error}") from error


def _needed(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "GLOBAL" in line]
    return lines[0].rstrip(".") if lines else "it holds other objects than tensors and plain values"


def read_dcp(folder: Path) -> Any:
    """As it was saved, nested as it was."""
    import torch
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.planner import ReadItem
    from torch.distributed.checkpoint.state_dict_loader import load

    if not (folder / METADATA).is_file():
        raise ForeignError(f"{folder} is no DCP checkpoint: it has no {METADATA}")
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
    except (Exception, CheckpointException) as error:
        if "weights_only" in str(error).lower():
            raise UnreadableError(
                f"{folder} needs pickle, which may run whatever its author wrote: "
                f"{_needed(error)}. Where you trust it, save the state_dict() of model and "
                "optimizer only"
            ) from None
        raise UnreadableError(f"{folder} cannot be read: {error}") from error
    return _nested(flat, metadata.planner_data or {})


class _Metadata(pickle.Unpickler):
    """Makes what DCP's metadata is made of, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        import torch

        if name in PLAIN.get(module, ()):
            return super().find_class(module, name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def _metadata(path: Path) -> Any:
    try:
        with open(path, "rb") as stream:
            return _Metadata(stream).load()
    except pickle.UnpicklingError as error:
        raise UnreadableError(
            f"{path} is no metadata of DCP: it asks for {error}, which is not made here"
        ) from None
    except (EOFError, AttributeError, ValueError, TypeError, IndexError) as error:
        raise ForeignError(f"{path} is no metadata of DCP: {error}") from error


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
    import torch

    if not isinstance(state, Mapping):
        raise ForeignError(f"{where} holds a {type(state).__name__}, and no dict of states")
    if state and all(isinstance(value, torch.Tensor) for value in state.values()):
        return Recipe(dict(state), None, None, None)
    models = dict(_models(state))
    optimizers = {name: part for name, part in state.items() if _is_optimizer(part)}
    chosen = _chosen(models, "model", model, where)
    if chosen is None:
        raise ForeignError(f"{where} holds no model's state: a dict of tensors by name")
    others = [part for part in state.values() if isinstance(part, Mapping)]
    return Recipe(
        chosen,
        _chosen(optimizers, "optimizer", optimizer, where),
        next((dict(part) for part in others if {"last_epoch", "base_lrs"} <= part.keys()), None),
        next((dict(part) for part in others if {"scale", "growth_factor"} <= part.keys()), None),
    )


def _models(state: Mapping[Any, Any]) -> Iterator[tuple[str, StateTree]]:
    import torch

    for name, part in state.items():
        if isinstance(part, Mapping) and part:
            if all(isinstance(key, str) for key in part) and all(
                isinstance(value, torch.Tensor) for value in part.values()
            ):
                yield str(name), dict(part)


def _is_optimizer(part: Any) -> bool:
    return isinstance(part, Mapping) and {"state", "param_groups"} <= part.keys()


def _chosen(
    candidates: Mapping[Any, Any], kind: str, wanted: str | None, where: str
) -> StateTree | None:
    names = ", ".join(repr(str(name)) for name in candidates)
    if wanted is not None:
        if wanted not in candidates:
            raise ForeignError(f"{where} holds no {kind} under {wanted!r}; there is: {names}")
        return dict(candidates[wanted])
    if len(candidates) > 1:
        raise ForeignError(
            f"{where} holds several that may be the {kind}: {names}; say which, with --{kind} NAME"
        )
    return next((dict(part) for part in candidates.values()), None)
