"""One checkpoint, written and read.

Written: stage, write, sync, manifest, commit. Until then it is not there. Several processes may
write it, a part each. The first one's part is described by the manifest that finishes the whole
and vouches for all files; each other part has a description of its own.

Read: every byte is checked before any of it is believed.
"""

import errno
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from gradkeeper.checkpoint import manifest, tensors
from gradkeeper.checkpoint.checksum import PIECE, Checksum
from gradkeeper.checkpoint.codec import decode, encode
from gradkeeper.checkpoint.errors import DamagedError, MissingError, ReadError, UnreadableError
from gradkeeper.checkpoint.manifest import FileFacts, Manifest
from gradkeeper.checkpoint.peers import Peers, all_of, first_of
from gradkeeper.checkpoint.storage import MANIFEST, Sink, Storage
from gradkeeper.checkpoint.tensors import MemoryBlock, View, lay_out, restore

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Snapshot:
    """Shows the state's own memory: to be written before anything changes it, or to be copied."""

    tree: Any
    views: dict[str, View]
    blocks: list[MemoryBlock]

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)

    def copied_to(self, memory: "torch.Tensor") -> "Snapshot":
        """The same, in bytes that nobody else writes to."""
        copies = []
        start = 0
        for block in self.blocks:
            piece = memory[start : start + block.size]
            piece.copy_(block.memory)
            copies.append(replace(block, memory=piece))
            start += block.size
        return replace(self, blocks=copies)


def snapshot_of(state: Any) -> Snapshot:
    encoded = encode(state)
    blocks, views = lay_out(encoded.tensors)
    return Snapshot(encoded.tree, views, tensors.in_order(blocks))


# Written

PACKAGES = ("gradkeeper", "torch", "numpy")
Files = dict[str, FileFacts]


def write(
    storage: Storage, peers: Peers, begin: Callable[[], str], snapshot: Snapshot, facts_tree: Any
) -> str:
    """Durable on return; on failure nothing of it stays, and the failure goes on up, everywhere.

    `begin`, called by the first process, gives the checkpoint its name, which is returned.
    """
    name = first_of(peers, begin)
    staged = first_of(peers, lambda: storage.stage(name))
    try:
        own = all_of(
            peers, lambda: _listed(_write_part(storage, staged, name, peers.rank, snapshot))
        )
        files = {
            file: FileFacts(facts[0], tuple(facts[1]))
            for part in own
            for file, facts in part.items()
        }
        described = _described(name, snapshot, files, facts_tree, parts=peers.size)
        first_of(peers, lambda: _finish(storage, staged, name, described))
    except BaseException:
        # What stays nevertheless is swept at the next save; the first failure is the one to tell.
        if peers.rank == 0:
            with suppress(Exception):
                storage.remove(staged)
        raise
    return name


def _write_part(storage: Storage, staged: str, name: str, part: int, snapshot: Snapshot) -> Files:
    file = tensors.file_of(part)
    with Checksum() as checksum:
        storage.write(
            f"{staged}/{file}",
            lambda stream: tensors.write(stream, snapshot.blocks, checksum),
        )
        files = {file: FileFacts(checksum.size, checksum.pieces())}
    if part == 0:
        return files
    description = manifest.file_of(part)
    packed = manifest.pack(_described(name, snapshot, files, {}, parts=1))
    files[description] = _write_bytes(storage, f"{staged}/{description}", packed)
    return files


def _finish(storage: Storage, staged: str, name: str, described: Manifest) -> None:
    _write_bytes(storage, f"{staged}/{MANIFEST}", manifest.pack(described))
    storage.commit(staged, name)


def _described(
    name: str, snapshot: Snapshot, files: Files, facts_tree: Any, *, parts: int
) -> Manifest:
    return Manifest(
        name=name,
        files=files,
        views=snapshot.views,
        tree=snapshot.tree,
        facts_tree=facts_tree,
        saved=manifest.now(),
        versions=_versions(),
        parts=parts,
    )


def _write_bytes(storage: Storage, path: str, text: bytes) -> FileFacts:
    def fill(stream: Sink) -> None:
        tensors.write_all(stream, text)

    with Checksum() as checksum:
        checksum.update(text)
        storage.write(path, fill)
        return FileFacts(checksum.size, checksum.pieces())


def _listed(files: Files) -> dict[str, Any]:
    """Plain values, for the others to hear."""
    return {file: [facts.size, facts.crc32] for file, facts in files.items()}


@cache
def _versions() -> Mapping[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


# Read

# What the disk says of a file that is broken; anything else (permissions, a network that is down)
# is no reason to go on from an older checkpoint.
BROKEN = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO)


@dataclass(frozen=True)
class Checkpoint:
    """Tensors are in main memory, whatever device they came from, each in memory of its own."""

    name: str
    state: Any
    facts: dict[str, Any]
    versions: dict[str, str]
    parts: int = 1


Assemble = Callable[[Callable[[int], Any], int], Any]
"""The state that is wanted, from what reads a part by its number, and how many parts there are."""


def first_part(read: Callable[[int], Any], parts: int) -> Any:
    return read(0)


def every_part(read: Callable[[int], Any], parts: int) -> Any:
    """By part, where there are several."""
    return read(0) if parts == 1 else [read(part) for part in range(parts)]


def look(storage: Storage, name: str, *, moved: bool = False) -> Manifest:
    """Its manifest; every file is there in its size, but not yet read.

    `moved` allows a folder that was copied or renamed after its save.
    """
    with _about(storage, name):
        return _look(storage, name, moved=moved)


def read(
    storage: Storage, name: str, *, moved: bool = False, assemble: Assemble = first_part
) -> Checkpoint:
    with _about(storage, name):
        found = _look(storage, name, moved=moved)
        state = assemble(lambda part: _read_part(storage, name, found, part), found.parts)
        return Checkpoint(name, state, found.facts, dict(found.versions), found.parts)


def verify(storage: Storage, name: str, *, moved: bool = False) -> Manifest:
    """Reads every file and compares; needs no torch."""
    with _about(storage, name):
        found = _look(storage, name, moved=moved)
        for file, facts in found.files.items():
            with storage.open(f"{name}/{file}") as stream, Checksum() as checksum:
                while chunk := stream.read(tensors.CHUNK):
                    checksum.update(chunk)
                _check(file, facts, checksum)
        return found


class UnreadTensor:
    """A tensor of a checkpoint, read when somebody asks."""

    def __init__(self, view: View, read: Callable[[View], "torch.Tensor"]) -> None:
        self.view = view
        self._read = read

    def read(self) -> "torch.Tensor":
        return self._read(self.view)

    def numpy(self) -> Any:
        """As decoding asks of what is to be an array."""
        return self.read().numpy()


def unread(storage: Storage, name: str, *, moved: bool = False) -> list[Any]:
    """By part, the state with an `UnreadTensor` for each tensor. Every file is verified first."""
    found = verify(storage, name, moved=moved)
    with _about(storage, name):
        return [_unread_part(storage, name, found, part) for part in range(found.parts)]


def _unread_part(storage: Storage, name: str, whole: Manifest, part: int) -> Any:
    path = f"{name}/{tensors.file_of(part)}"
    with storage.open(path) as stream:
        starts = tensors.block_starts(stream)

    def read(view: View) -> "torch.Tensor":
        with _about(storage, name), storage.open(path) as stream:
            return tensors.read_one(stream, view, starts[view.block])

    described = described_part(storage, name, whole, part)
    views = {key: UnreadTensor(view, read) for key, view in described.views.items()}
    return decode(described.tree, views)


@contextmanager
def _about(storage: Storage, name: str) -> Iterator[None]:
    """Errors name the checkpoint that they are about."""
    where = f"{storage.url.rstrip('/')}/{name}"
    try:
        yield
    except ReadError as error:
        raise type(error)(f"{where}: {error}") from error.__cause__
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in BROKEN or isinstance(error, FileNotFoundError):
            file = PurePath(error.filename or "a file").name
            raise DamagedError(f"{where}: {file} cannot be read: {reason}") from error
        raise UnreadableError(f"{where} cannot be read: {reason}") from error


def _look(storage: Storage, name: str, *, moved: bool) -> Manifest:
    try:
        sizes = storage.files(name)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingError("there is no such checkpoint, or it is no folder") from None
    if MANIFEST not in sizes:
        raise DamagedError(f"its {MANIFEST} is missing")
    with storage.open(f"{name}/{MANIFEST}") as stream:
        found = manifest.unpack(stream.read())
    if found.name != name and not moved:
        raise DamagedError(f"its {MANIFEST} is that of {found.name}")
    for file, facts in found.files.items():
        if file not in sizes:
            raise DamagedError(f"its {file} is missing")
        if sizes[file] != facts.size:
            raise DamagedError(f"{file} has {sizes[file]:,} bytes and should have {facts.size:,}")
    return found


def _read_part(storage: Storage, name: str, whole: Manifest, part: int) -> Any:
    try:
        described = described_part(storage, name, whole, part)
        file = tensors.file_of(part)
        blocks = _read_tensors(storage, name, file, whole.files[file])
        return decode(described.tree, restore(described.views, blocks))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DamagedError(f"its files contradict each other ({error!r})") from error


def described_part(storage: Storage, name: str, whole: Manifest, part: int) -> Manifest:
    """What describes that part; of the first, the manifest itself."""
    if part == 0:
        return whole
    file = manifest.file_of(part)
    with storage.open(f"{name}/{file}") as stream, Checksum() as checksum:
        raw = stream.read()
        checksum.update(raw)
        _check(file, whole.files[file], checksum)
    return manifest.unpack(raw)


def _read_tensors(storage: Storage, name: str, file: str, facts: FileFacts) -> dict[str, Any]:
    with storage.open(f"{name}/{file}") as stream, Checksum() as checksum:
        try:
            blocks = tensors.read(stream, facts.size, checksum)
        except DamagedError as error:
            raise DamagedError(f"{file} is damaged: {error}") from None
        _check(file, facts, checksum)
    return blocks


def _check(file: str, facts: FileFacts, checksum: Checksum) -> None:
    found = checksum.pieces()
    for number, (is_there, expected) in enumerate(zip(found, facts.crc32, strict=False)):
        if is_there != expected:
            start = number * PIECE
            raise DamagedError(
                f"{file} does not match its checksum between byte {start:,} "
                f"and byte {min(start + PIECE, facts.size):,}"
            )
    if len(found) != len(facts.crc32):
        raise DamagedError(f"{file} has not the size that it should have")
