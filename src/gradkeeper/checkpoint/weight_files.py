"""A model's weights as others read them: safetensors by the model's own names, as Hugging Face lays
them out; and a DCP folder.

Nothing is held in memory but the tensor that is being written: a weight says its type and shape at
once, and its numbers only when their turn has come.
"""

import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

from gradkeeper.checkpoint.errors import UnkeepableError, WriteError
from gradkeeper.checkpoint.tensors import CHUNK, DTYPES, bytes_of, write_all

if TYPE_CHECKING:
    import torch

Form = Literal["safetensors", "dcp"]
FORMS = get_args(Form)
FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD_BYTES = 5_000_000_000
OURS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?")
"""Names that an export may have left, and a later one replaces."""


@dataclass(frozen=True)
class NamedWeight:
    name: str
    dtype: str
    shape: tuple[int, ...]
    itemsize: int
    read: Callable[[], "torch.Tensor"]
    """In main memory, whole."""
    held: bool = False
    """It is there already: to read it takes no memory."""

    @property
    def size(self) -> int:
        return prod(self.shape) * self.itemsize


@dataclass(frozen=True)
class ModelWeights:
    """What is written; `tied` names what another name stands for, and is written once."""

    written: Sequence[NamedWeight]
    tied: Mapping[str, str]

    @property
    def size(self) -> int:
        return sum(weight.size for weight in self.written)


def check(weights: ModelWeights, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Before anything is written: what cannot be, or would take another's place."""
    for weight in weights.written:
        if weight.dtype not in DTYPES:
            raise UnkeepableError(
                f"{weight.name} is of type {weight.dtype}, which safetensors has no name for"
            )
    if not os.fspath(path):
        raise WriteError("weights need a path to go to, and it is empty")
    if "://" in str(path):
        raise WriteError(
            f"{path} is a URL: weights are written to this machine's own folders, and copied from "
            "there"
        )
    target = Path(path)
    if target.is_file() and not is_one_file(target):
        raise WriteError(
            f"{target} is a file: weights go to a folder, or to one file whose name ends in "
            ".safetensors"
        )
    if not overwrite and (target.is_file() or (target.is_dir() and any(_there(target)))):
        raise WriteError(
            f"{target} holds weights already: choose another path, or replace them with "
            "overwrite=True (--overwrite)"
        )


def _there(folder: Path) -> Iterator[str]:
    for name in os.listdir(folder):
        if OURS.fullmatch(name) or name == ".metadata":
            yield name


def write_safetensors(
    weights: ModelWeights, path: str | os.PathLike[str], *, shard_bytes: int = SHARD_BYTES
) -> list[str]:
    """The files that were written. A path that ends in .safetensors is one file, any other is a
    folder: one file in it, or several with an index above `shard_bytes`."""
    target = Path(path)
    if is_one_file(target):
        _write_file(target, weights.written, weights.tied)
        return [str(target)]
    _make(target)
    shards = _shards(weights.written, shard_bytes)
    before = set(_there(target))
    if len(shards) == 1:
        files = {FILE: shards[0]}
    else:
        count = len(shards)
        files = {
            f"model-{number:05}-of-{count:05}.safetensors": shard
            for number, shard in enumerate(shards, 1)
        }
    for name, shard in files.items():
        _write_file(target / name, shard, weights.tied)
    written = list(files)
    if len(shards) > 1:
        _write_index(target / INDEX, files, weights.size)
        written.append(INDEX)
    # Last: until now, whoever looked found the weights that were there before.
    for name in before - set(written):
        (target / name).unlink()
    return [str(target / name) for name in written]


def is_one_file(path: str | os.PathLike[str]) -> bool:
    return Path(path).suffix == ".safetensors"


def in_writing_order(weights: ModelWeights, shard_bytes: int | None) -> list[NamedWeight]:
    """`shard_bytes`: None for one file."""
    most = shard_bytes or weights.size
    return [weight for shard in _shards(weights.written, most) for weight in _in_file(shard)]


def _in_file(weights: Sequence[NamedWeight]) -> list[NamedWeight]:
    """Large elements first: then each tensor is aligned for whoever maps the file."""
    return sorted(weights, key=lambda weight: -weight.itemsize)


def _shards(weights: Sequence[NamedWeight], most: int) -> list[list[NamedWeight]]:
    """In the model's order, each as full as it gets."""
    shards: list[list[NamedWeight]] = [[]]
    size = 0
    for weight in weights:
        if shards[-1] and size + weight.size > most:
            shards.append([])
            size = 0
        shards[-1].append(weight)
        size += weight.size
    return shards


def _write_index(path: Path, files: Mapping[str, Sequence[NamedWeight]], size: int) -> None:
    places = {weight.name: file for file, shard in files.items() for weight in shard}
    text = json.dumps({"metadata": {"total_size": size}, "weight_map": places}, indent=2)
    with _new(path) as stream:
        stream.write(text.encode())


def _write_file(path: Path, weights: Sequence[NamedWeight], tied: Mapping[str, str]) -> None:
    ordered = _in_file(weights)
    with _new(path) as stream:
        write_all(stream, _header(ordered, tied))
        for weight in ordered:
            _write_tensor(stream, weight)


def _header(weights: Sequence[NamedWeight], tied: Mapping[str, str]) -> bytes:
    own = {weight.name for weight in weights}
    # "pt" is asked for by transformers; the names that were left out, by safetensors' load_model.
    names = {name: kept for name, kept in tied.items() if kept in own}
    table: dict[str, Any] = {"__metadata__": {"format": "pt", **names}}
    end = 0
    for weight in weights:
        start, end = end, end + weight.size
        table[weight.name] = {
            "dtype": DTYPES[weight.dtype],
            "shape": list(weight.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _write_tensor(stream: IO[bytes], weight: NamedWeight) -> None:
    tensor = weight.read().detach().cpu()
    tensor = tensor.resolve_conj().resolve_neg().contiguous()
    start = int(tensor.storage_offset()) * tensor.itemsize
    memory = bytes_of(tensor, start, start + weight.size).numpy().data
    for at in range(0, len(memory), CHUNK):
        write_all(stream, memory[at : at + CHUNK])


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise WriteError(f"{folder} is a file: there can be no weights in it") from None
    except OSError as error:
        raise WriteError(f"{folder} could not be made: {error.strerror or error}") from error


@contextmanager
def _new(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name when all of it is on disk."""
    _make(path.parent)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(staged, "wb", buffering=0) as stream:
            yield stream
            os.fsync(stream.fileno())
        os.replace(staged, path)
    except OSError as error:
        raise WriteError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            staged.unlink(missing_ok=True)


def write_dcp(weights: ModelWeights, path: str | os.PathLike[str]) -> list[str]:
    """A folder that torch.distributed.checkpoint.load reads, by the model's own names.

    Tied weights are there under each name, since DCP asks for each; it writes what is one tensor
    once more.
    """
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    target = Path(path)
    _make(target.parent)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as staged:
        state = _at_once(weights.written, Path(staged) / FILE)
        for name, kept in weights.tied.items():
            state[name] = state[kept]
        folder = Path(staged) / "dcp"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            save(state, storage_writer=FileSystemWriter(folder, overwrite=True), no_dist=True)
        del state
        if target.exists():
            for name in list(os.listdir(target)):
                if name == ".metadata" or name.endswith(".distcp"):
                    (target / name).unlink()
        target.mkdir(exist_ok=True)
        # The metadata last: it is what makes a folder a checkpoint.
        names = sorted(os.listdir(folder), key=lambda name: name == ".metadata")
        for name in names:
            shutil.move(folder / name, target / name)
    return [str(target / name) for name in names]


def _at_once(weights: Sequence[NamedWeight], file: Path) -> "dict[str, torch.Tensor]":
    """DCP's writer wants all tensors together. Those that are not in memory are mapped from a file
    that is removed afterwards, so memory holds no more than the system has room for."""
    if all(weight.held for weight in weights):
        return {weight.name: weight.read() for weight in weights}
    _write_file(file, weights, {})
    return dict(mapped_file(file))


def mapped_file(path: str | os.PathLike[str]) -> Iterator[tuple[str, "torch.Tensor"]]:
    """The tensors of a safetensors file, which are read when they are used."""
    import numpy
    import torch

    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > os.fstat(stream.fileno()).st_size:
            raise ValueError("its table would be longer than the file")
        table = json.loads(stream.read(length))
    table.pop("__metadata__", None)
    kinds = {short: getattr(torch, name) for name, short in DTYPES.items() if hasattr(torch, name)}
    for name, facts in table.items():
        start, stop = facts["data_offsets"]
        dtype = kinds[facts["dtype"]]
        if start == stop:
            yield name, torch.empty(facts["shape"], dtype=dtype)
            continue
        # Each by itself: torch.save copies what is a part of a larger storage, and holds the copy
        # until garbage is collected. Copied on write, for torch has no tensors that cannot be
        # written to.
        place = 8 + length + start
        piece = numpy.memmap(path, dtype="uint8", mode="c", offset=place, shape=(stop - start,))
        yield name, torch.from_numpy(piece).view(dtype).reshape(facts["shape"])
