"""Where checkpoints live: a folder on a disk, or under any URL that fsspec knows."""

import os
from collections.abc import Callable
from typing import IO, Any, Protocol

LATEST = "latest"
STAGING = ".staging-"
TRASH = ".trash-"


class Sink(Protocol):
    def write(self, chunk: Any, /) -> int | None:
        """How much it took."""
        ...


class Place(Protocol):
    """Names are relative to the folder, with `/` between a checkpoint and its file."""

    url: str
    atomic: bool
    """Whether a finished checkpoint appears at once; if not, its manifest is what finishes it."""

    def names(self) -> list[str]:
        """What lies in the folder; nothing, if there is no such folder."""
        ...

    def stage(self, name: str) -> str:
        """Where to write the files of a checkpoint that is to have this name."""
        ...

    def write(self, path: str, fill: Callable[[Sink], None]) -> None:
        """A new file, durable on return."""
        ...

    def commit(self, staged: str, name: str) -> None: ...

    def point(self, name: str) -> None:
        """Moves `latest`."""
        ...

    def remove(self, name: str) -> None:
        """A kill halfway leaves no half checkpoint behind under its name."""
        ...

    def sweep(self) -> list[str]:
        """Clears away what killed saves left; the names of what could not be removed."""
        ...

    def files(self, name: str) -> dict[str, int]:
        """The files of a checkpoint with their sizes; FileNotFoundError if there is none."""
        ...

    def open(self, path: str) -> IO[bytes]: ...


def place(url: str | os.PathLike[str]) -> Place:
    text = os.fspath(url)
    if "://" not in text and "::" not in text:
        from gradkeeper.checkpoint.disk import Disk

        return Disk(text)
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    from fsspec.implementations.local import (  # type: ignore[import-untyped]
        LocalFileSystem,
    )

    files, path = url_to_fs(text)
    if isinstance(files, LocalFileSystem):
        from gradkeeper.checkpoint.disk import Disk

        return Disk(path)
    from gradkeeper.checkpoint.remote import Remote

    return Remote(text, files, path)
