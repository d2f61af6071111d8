"""One checkpoint, written: stage, write, sync, manifest, commit. Until then it is not there.

Several processes may write it, a part each. The first one's part is described by the manifest that
finishes the whole and vouches for all files; each other part has a description of its own.
"""

import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gradkeeper.checkpoint import manifest, tensor_file
from gradkeeper.checkpoint.digest import Digest
from gradkeeper.checkpoint.image import Image
from gradkeeper.checkpoint.manifest import FileFacts, Manifest
from gradkeeper.checkpoint.peers import Peers, all_of, first_of
from gradkeeper.checkpoint.place import Place, Sink

PACKAGES = ("gradkeeper", "torch", "numpy")
Files = dict[str, FileFacts]


def write(
    place: Place, peers: Peers, begin: Callable[[], str], image: Image, facts_tree: Any
) -> str:
    """Durable on return; on failure nothing of it stays, and the failure goes on up, everywhere.

    `begin`, called by the first process, gives the checkpoint its name, which is returned.
    """
    name = first_of(peers, begin)
    staged = first_of(peers, lambda: place.stage(name))
    try:
        own = all_of(peers, lambda: _listed(_write_part(place, staged, name, peers.rank, image)))
        files = {
            file: FileFacts(facts[0], tuple(facts[1]))
            for part in own
            for file, facts in part.items()
        }
        described = _described(name, image, files, facts_tree, parts=peers.size)
        first_of(peers, lambda: _finish(place, staged, name, described))
    except BaseException:
        # What stays nevertheless is swept at the next save; the first failure is the one to tell.
        if peers.rank == 0:
            with suppress(Exception):
                place.remove(staged)
        raise
    return name


def _write_part(place: Place, staged: str, name: str, part: int, image: Image) -> Files:
    file = tensor_file.name_of(part)
    with Digest() as digest:
        place.write(
            f"{staged}/{file}",
            lambda stream: tensor_file.write(stream, image.blocks, digest),
        )
        files = {file: FileFacts(digest.size, digest.pieces())}
    if part == 0:
        return files
    description = manifest.name_of(part)
    packed = manifest.pack(_described(name, image, files, {}, parts=1))
    files[description] = _write_bytes(place, f"{staged}/{description}", packed)
    return files


def _finish(place: Place, staged: str, name: str, described: Manifest) -> None:
    _write_bytes(place, f"{staged}/{manifest.NAME}", manifest.pack(described))
    place.commit(staged, name)


def _described(name: str, image: Image, files: Files, facts_tree: Any, *, parts: int) -> Manifest:
    return Manifest(
        name=name,
        files=files,
        views=image.views,
        tree=image.tree,
        facts_tree=facts_tree,
        saved=manifest.now(),
        versions=_versions(),
        parts=parts,
    )


def _write_bytes(place: Place, path: str, text: bytes) -> FileFacts:
    def fill(stream: Sink) -> None:
        tensor_file.write_all(stream, text)

    with Digest() as digest:
        digest.update(text)
        place.write(path, fill)
        return FileFacts(digest.size, digest.pieces())


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
