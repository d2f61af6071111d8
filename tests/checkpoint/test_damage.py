"""A damaged checkpoint is named, and the one before it is used: never wrong data in silence."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gradkeeper.checkpoint import (
    AllDamagedError,
    CheckpointWarning,
    DamagedError,
    ForeignError,
    MissingError,
    NewerFormatError,
    ReadError,
    Store,
    UnreadableError,
    read_checkpoint,
)
from gradkeeper.checkpoint.checksum import PIECE
from tests.checkpoint.same import same

FILES = ["tensors.safetensors", "manifest.json"]
Damage = Callable[[Path, Path], None]


def state(number: int) -> dict[str, Any]:
    return {"w": torch.full((50,), float(number)), "step": number, "name": f"the {number}th"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three checkpoints."""
    store = Store(tmp_path / "run")
    for number in (1, 2, 3):
        store.save(state(number), facts={"step": number})
    return tmp_path / "run"


def truncate(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def halve(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path, other: Path) -> None:
    file.write_bytes(b"")


def lengthen(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def flip_in_the_middle(file: Path, other: Path) -> None:
    flip(file, file.stat().st_size // 2)


def delete(file: Path, other: Path) -> None:
    file.unlink()


def swap(file: Path, other: Path) -> None:
    file.write_bytes(other.read_bytes())


def folder_instead(file: Path, other: Path) -> None:
    file.unlink()
    file.mkdir()


def noise(file: Path, other: Path) -> None:
    file.write_bytes(bytes(255 - byte for byte in file.read_bytes()))


def flip(file: Path, at: int, bit: int = 1) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= bit
    file.write_bytes(content)


KINDS: list[Damage] = [
    truncate,
    halve,
    empty,
    lengthen,
    flip_in_the_middle,
    delete,
    swap,
    folder_instead,
    noise,
]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", KINDS, ids=lambda damage: damage.__name__)
def test_the_one_before_is_used_with_a_warning(run: Path, damage: Damage, file: str) -> None:
    damage(run / "save-000003" / file, run / "save-000001" / file)

    with pytest.warns(CheckpointWarning) as told:
        found = Store(run).load()

    assert found is not None
    assert same(found.state, state(2))
    (warning,) = told
    assert "save-000003" in str(warning.message)
    assert file in str(warning.message)
    assert "going on from save-000002 instead" in str(warning.message)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", KINDS, ids=lambda damage: damage.__name__)
def test_if_all_are_damaged_nothing_is_loaded(run: Path, damage: Damage, file: str) -> None:
    shutil.copytree(run, run.parent / "copy")
    for number, other in ((1, 2), (2, 3), (3, 1)):
        damage(run / f"save-00000{number}" / file, run.parent / f"copy/save-00000{other}" / file)

    with pytest.raises(AllDamagedError) as caught:
        Store(run).load()

    assert all(f"save-00000{number}" in str(caught.value) for number in (1, 2, 3))


@pytest.mark.parametrize("file", FILES)
def test_no_flip_of_any_byte_gives_wrong_data(run: Path, file: str) -> None:
    path = run / "save-000003" / file
    good = path.read_bytes()
    store = Store(run)

    for at in range(len(good)):
        flip(path, at, bit=1 << at % 8)
        with pytest.raises((DamagedError, ForeignError, NewerFormatError)):
            store.read("save-000003")
        with pytest.raises((DamagedError, ForeignError, NewerFormatError)):
            store.verify("save-000003")
        path.write_bytes(good)

    assert same(store.read("save-000003").state, state(3))


def test_damage_in_a_large_file_has_a_place(tmp_path: Path) -> None:
    store = Store(tmp_path)
    name = store.save({"w": torch.zeros(3 * PIECE // 4)})
    flip(tmp_path / name / "tensors.safetensors", PIECE + 5)

    with pytest.raises(DamagedError, match="between byte 8,388,608 and byte 16,777,216"):
        store.read(name)


def test_a_foreign_folder_is_passed_over(run: Path) -> None:
    foreign = run / "save-000004"
    foreign.mkdir()
    (foreign / "manifest.json").write_text('{"name": "another program"}')

    with pytest.warns(CheckpointWarning, match=r"save-000004: its manifest.json was not written"):
        found = Store(run).load()

    assert found is not None
    assert found.name == "save-000003"


def test_a_newer_format_is_named_and_left_where_it_is(run: Path) -> None:
    path = run / "save-000003" / "manifest.json"
    newer = json.loads(path.read_text())
    newer["version"] = 2
    path.write_text(json.dumps(newer))
    store = Store(run, keep=2)

    with pytest.warns(CheckpointWarning, match="version 2, and this gradkeeper reads up to 1: upd"):
        store.load()
    for number in range(4):
        store.save(state(number))

    assert path.exists()


def test_a_file_in_the_place_of_a_checkpoint_is_passed_over(run: Path) -> None:
    (run / "save-000004").write_text("")

    with pytest.warns(
        CheckpointWarning, match="save-000004: there is no such checkpoint, or it is"
    ):
        found = Store(run).load()

    assert found is not None
    assert found.name == "save-000003"


def test_what_is_not_ours_lies_there_unharmed(run: Path) -> None:
    (run / "notes.txt").write_text("lr was too high")
    (run / "save-12").mkdir()

    found = Store(run).load()

    assert found is not None
    assert found.name == "save-000003"
    assert (run / "notes.txt").exists()


def test_a_checkpoint_can_be_read_by_its_own_path_even_when_it_was_renamed(run: Path) -> None:
    shutil.copytree(run / "save-000002", run.parent / "best")

    assert same(read_checkpoint(run.parent / "best").state, state(2))


def test_a_renamed_one_among_the_others_is_not_taken_for_the_newest(run: Path) -> None:
    shutil.copytree(run / "save-000001", run / "save-000009")

    with pytest.warns(CheckpointWarning, match="its manifest.json is that of save-000001"):
        found = Store(run).load()

    assert found is not None
    assert found.name == "save-000003"


def test_the_folder_of_one_checkpoint_is_no_folder_of_checkpoints(run: Path) -> None:
    with pytest.raises(ReadError, match="is itself a checkpoint: give the folder that holds it"):
        Store(run / "save-000003").load()


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert Store(tmp_path).load() is None
    assert Store(tmp_path / "nowhere").load() is None
    with pytest.raises(MissingError):
        read_checkpoint(tmp_path / "nowhere")


def test_a_file_that_may_not_be_read_is_no_reason_to_go_back(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gradkeeper.checkpoint.storage.Disk.open", refuse)

    with pytest.warns(CheckpointWarning, match="`latest` cannot be read: Permission denied"):
        with pytest.raises(UnreadableError, match="save-000003 cannot be read: Permission denied"):
            Store(run).load()


def test_a_damaged_one_pushes_no_good_one_out(run: Path) -> None:
    for number in (2, 3):
        flip(run / f"save-00000{number}" / "tensors.safetensors", -1)
    store = Store(run, keep=2)
    with pytest.warns(CheckpointWarning):
        store.load()

    store.save(state(4))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(store.read("save-000001").state, state(1))
        assert same(store.read("save-000004").state, state(4))
