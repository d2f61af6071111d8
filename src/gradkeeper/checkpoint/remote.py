"""A folder under a URL, by fsspec. There is no rename: a checkpoint is finished by its manifest."""

from collections.abc import Callable
from typing import IO, Any

from gradkeeper.checkpoint.manifest import NAME
from gradkeeper.checkpoint.place import LATEST, Sink


class Remote:
    atomic = False

    def __init__(self, url: str, files: Any, folder: str) -> None:
        self.url = url
        self._files = files
        self._folder = folder.rstrip("/")

    def names(self) -> list[str]:
        return list(self._listed(self._folder, missing={}))

    def stage(self, name: str) -> str:
        self._files.makedirs(f"{self._folder}/{name}", exist_ok=True)
        return name

    def write(self, path: str, fill: Callable[[Sink], None]) -> None:
        with self._files.open(f"{self._folder}/{path}", "wb") as stream:
            fill(stream)

    def commit(self, staged: str, name: str) -> None:
        """Done already, by the manifest."""

    def point(self, name: str) -> None:
        self._files.pipe_file(f"{self._folder}/{LATEST}", f"{name}\n".encode())

    def remove(self, name: str) -> None:
        folder = f"{self._folder}/{name}"
        # First what makes it a checkpoint.
        if self._files.exists(f"{folder}/{NAME}"):
            self._files.rm_file(f"{folder}/{NAME}")
        self._files.rm(folder, recursive=True)

    def sweep(self) -> list[str]:
        """Nothing is staged here; unfinished checkpoints are the store's to judge."""
        return []

    def files(self, name: str) -> dict[str, int]:
        listed = self._listed(f"{self._folder}/{name}", missing=None)
        return {name: facts["size"] for name, facts in listed.items()}

    def open(self, path: str) -> IO[bytes]:
        stream: IO[bytes] = self._files.open(f"{self._folder}/{path}", "rb")
        return stream

    def _listed(self, folder: str, *, missing: dict[str, Any] | None) -> dict[str, Any]:
        # Another process may have written since the last listing.
        self._files.invalidate_cache()
        try:
            entries = self._files.ls(folder, detail=True)
        except FileNotFoundError:
            if missing is None:
                raise
            return missing
        names = {entry["name"].rstrip("/").rpartition("/")[2]: entry for entry in entries}
        # Some stores list the folder itself.
        return {name: entry for name, entry in names.items() if name and entry["name"] != folder}
