"""Under a URL nothing can be renamed: the manifest is what makes a checkpoint."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest
import torch

from gradkeeper.checkpoint import (
    AllDamagedError,
    CheckpointWarning,
    Store,
    WriteError,
    read_checkpoint,
)
from gradkeeper.checkpoint.storage import RemoteStorage
from gradkeeper.checkpoint.tensors import write_all
from tests.checkpoint.same import same

URL = "memory://remote/run"


@pytest.fixture
def files() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    if files.exists("/remote"):
        files.rm("/remote", recursive=True)


def state(number: int) -> dict[str, Any]:
    return {"w": torch.full((9,), float(number))}


def test_it_keeps_and_prunes_as_on_a_disk(files: Any) -> None:
    store = Store(URL, keep=2, keep_every=3)

    for number in range(1, 9):
        store.save(state(number))

    assert store.names() == ["save-000003", "save-000006", "save-000007", "save-000008"]
    assert files.cat("/remote/run/latest") == b"save-000008\n"
    assert same(read_checkpoint(f"{URL}/save-000006").state, state(6))


def test_a_save_cut_short_is_not_believed(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(URL)
    store.save(state(1))
    cut_short(store, "manifest.json", monkeypatch)

    with pytest.warns(CheckpointWarning, match=r"save-000002: .*going on from save-000001 instead"):
        found = Store(URL).load()

    assert found is not None
    assert same(found.state, state(1))


@pytest.mark.parametrize("file", ["tensors.safetensors", "manifest.json"])
def test_a_first_save_cut_short_is_no_checkpoint(
    files: Any, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_short(Store(URL), file, monkeypatch)

    with pytest.warns(CheckpointWarning, match="its save was never finished"):
        assert Store(URL).load() is None


def test_what_was_cut_short_goes_with_the_next_save(
    files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(URL)
    store.save(state(1))
    cut_short(store, "tensors.safetensors", monkeypatch)

    store.save(state(3))

    assert store.names() == ["save-000001", "save-000003"]


def test_a_manifest_deleted_later_is_damage(files: Any) -> None:
    Store(URL).save(state(1))
    files.rm("/remote/run/save-000001/manifest.json")

    with pytest.raises(AllDamagedError, match=r"its manifest.json is missing"):
        Store(URL).load()


def test_a_flipped_byte_is_noticed(files: Any) -> None:
    store = Store(URL)
    for number in (1, 2):
        store.save(state(number))
    path = "/remote/run/save-000002/tensors.safetensors"
    content = bytearray(files.cat(path))
    content[-1] ^= 1
    files.pipe(path, bytes(content))

    with pytest.warns(CheckpointWarning, match="does not match its checksum"):
        found = store.load()

    assert found is not None
    assert same(found.state, state(1))


def test_a_failed_write_is_told(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the bucket is gone")

    monkeypatch.setattr(RemoteStorage, "write", fail)

    with pytest.raises(WriteError, match="the bucket is gone"):
        Store(URL).save(state(1))


def test_a_file_url_is_a_disk(tmp_path: Path) -> None:
    Store(f"file://{tmp_path}/run").save(state(1))

    assert (tmp_path / "run" / "save-000001" / "manifest.json").exists()


class Killed(BaseException):
    pass


def cut_short(store: Store, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that is killed in the middle of a file: half of it is there, and no cleaning up."""
    write = RemoteStorage.write

    def half(self: RemoteStorage, path: str, fill: Any) -> None:
        if not path.endswith(file):
            write(self, path, fill)
            return
        parts: list[bytes] = []
        fill(_Catch(parts))
        content = b"".join(parts)
        write(self, path, lambda stream: write_all(stream, content[: len(content) // 2]))
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(RemoteStorage, "write", half)
        patch.setattr(RemoteStorage, "remove", lambda *_: None)
        with pytest.raises(Killed):
            store.save(state(2))


class _Catch:
    def __init__(self, parts: list[bytes]) -> None:
        self.parts = parts

    def write(self, chunk: Any, /) -> int:
        self.parts.append(bytes(chunk))
        return len(chunk)
