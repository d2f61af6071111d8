"""One checkpoint, written: stage, write, sync, manifest, commit. Until then it is not there."""

import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gradkeeper.checkpoint import manifest, tensor_file
from gradkeeper.checkpoint.digest import Digest
from gradkeeper.checkpoint.image import Image
from gradkeeper.checkpoint.manifest import FileFacts, Manifest
from gradkeeper.checkpoint.place import Place

PACKAGES = ("gradkeeper", "torch", "numpy")


def write(place: Place, name: str, image: Image, facts_tree: Any) -> None:
    """Durable on return; on failure nothing of it stays, and the failure goes on up."""
    staged = place.stage(name)
    try:
        files = {tensor_file.NAME: _write_tensors(place, staged, image)}
        packed = manifest.pack(
            Manifest(
                name=name,
                files=files,
                views=image.views,
                tree=image.tree,
                facts_tree=facts_tree,
                saved=manifest.now(),
                versions=_versions(),
            )
        )
        place.write(
            f"{staged}/{manifest.NAME}", lambda stream: tensor_file.write_all(stream, packed)
        )
        place.commit(staged, name)
    except BaseException:
        # What stays nevertheless is swept at the next save; the first failure is the one to tell.
        with suppress(Exception):
            place.remove(staged)
        raise


def _write_tensors(place: Place, staged: str, image: Image) -> FileFacts:
    with Digest() as digest:
        place.write(
            f"{staged}/{tensor_file.NAME}",
            lambda stream: tensor_file.write(stream, image.blocks, digest),
        )
        return FileFacts(digest.size, digest.pieces())


@cache
def _versions() -> Mapping[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
