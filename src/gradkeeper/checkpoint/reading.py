"""One checkpoint, read back: every byte is checked before any of it is believed."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from gradkeeper.checkpoint import manifest, tensor_file
from gradkeeper.checkpoint.decoding import decode
from gradkeeper.checkpoint.digest import PIECE, Digest
from gradkeeper.checkpoint.errors import DamagedError, MissingError, ReadError, UnreadableError
from gradkeeper.checkpoint.layout import restore
from gradkeeper.checkpoint.manifest import FileFacts, Manifest
from gradkeeper.checkpoint.place import Place

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


def look(place: Place, name: str, *, moved: bool = False) -> Manifest:
    """Its manifest; every file is there in its size, but not yet read.

    `moved` allows a folder that was copied or renamed after its save.
    """
    with _about(place, name):
        return _look(place, name, moved=moved)


def read(
    place: Place, name: str, *, moved: bool = False, assemble: Assemble = first_part
) -> Checkpoint:
    with _about(place, name):
        found = _look(place, name, moved=moved)
        state = assemble(lambda part: _read_part(place, name, found, part), found.parts)
        return Checkpoint(name, state, found.facts, dict(found.versions), found.parts)


def verify(place: Place, name: str, *, moved: bool = False) -> Manifest:
    """Reads every file and compares; needs no torch."""
    with _about(place, name):
        found = _look(place, name, moved=moved)
        for file, facts in found.files.items():
            with place.open(f"{name}/{file}") as stream, Digest() as digest:
                while chunk := stream.read(tensor_file.CHUNK):
                    digest.update(chunk)
                _compare(file, facts, digest)
        return found


@contextmanager
def _about(place: Place, name: str) -> Iterator[None]:
    """Errors name the checkpoint that they are about."""
    where = f"{place.url.rstrip('/')}/{name}"
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


def _look(place: Place, name: str, *, moved: bool) -> Manifest:
    try:
        sizes = place.files(name)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingError("there is no such checkpoint, or it is no folder") from None
    if manifest.NAME not in sizes:
        raise DamagedError(f"its {manifest.NAME} is missing")
    with place.open(f"{name}/{manifest.NAME}") as stream:
        found = manifest.unpack(stream.read())
    if found.name != name and not moved:
        raise DamagedError(f"its {manifest.NAME} is that of {found.name}")
    for file, facts in found.files.items():
        if file not in sizes:
            raise DamagedError(f"its {file} is missing")
        if sizes[file] != facts.size:
            raise DamagedError(f"{file} has {sizes[file]:,} bytes and should have {facts.size:,}")
    return found


def _read_part(place: Place, name: str, whole: Manifest, part: int) -> Any:
    try:
        described = described_part(place, name, whole, part)
        file = tensor_file.name_of(part)
        blocks = _read_tensors(place, name, file, whole.files[file])
        return decode(described.tree, restore(described.views, blocks))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DamagedError(f"its files contradict each other ({error!r})") from error


def described_part(place: Place, name: str, whole: Manifest, part: int) -> Manifest:
    """What describes that part; of the first, the manifest itself."""
    if part == 0:
        return whole
    file = manifest.name_of(part)
    with place.open(f"{name}/{file}") as stream, Digest() as digest:
        raw = stream.read()
        digest.update(raw)
        _compare(file, whole.files[file], digest)
    return manifest.unpack(raw)


def _read_tensors(place: Place, name: str, file: str, facts: FileFacts) -> dict[str, Any]:
    with place.open(f"{name}/{file}") as stream, Digest() as digest:
        try:
            blocks = tensor_file.read(stream, facts.size, digest)
        except DamagedError as error:
            raise DamagedError(f"{file} is damaged: {error}") from None
        _compare(file, facts, digest)
    return blocks


def _compare(file: str, facts: FileFacts, digest: Digest) -> None:
    found = digest.pieces()
    for number, (is_there, expected) in enumerate(zip(found, facts.crc32, strict=False)):
        if is_there != expected:
            start = number * PIECE
            raise DamagedError(
                f"{file} does not match its checksum between byte {start:,} "
                f"and byte {min(start + PIECE, facts.size):,}"
            )
    if len(found) != len(facts.crc32):
        raise DamagedError(f"{file} has not the size that it should have")
