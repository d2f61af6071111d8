"""A folder of checkpoints: names, order, what stays and what goes."""

import json
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradkeeper.checkpoint import AllDamagedError, CheckpointWarning, Store, WriteError
from gradkeeper.checkpoint.store import outdated


def saves(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_the_newest_is_loaded_with_its_facts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for step in (10, 20):
        store.save({"step": step}, facts={"step": step, "window": {"open": True, "of": 4}})

    found = store.load()

    assert found is not None
    assert (found.name, found.state) == ("save-000002", {"step": 20})
    assert found.facts == {"step": 20, "window": {"open": True, "of": 4}}
    assert store.look("save-000001").facts["step"] == 10


def test_latest_names_the_newest(tmp_path: Path) -> None:
    store = Store(tmp_path)

    names = [store.save({}) for _ in range(3)]

    assert (tmp_path / "latest").read_text() == f"{names[-1]}\n"


def test_without_latest_the_newest_is_found_as_well(tmp_path: Path) -> None:
    store = Store(tmp_path)
    name = store.save({})
    (tmp_path / "latest").unlink()

    found = store.load()

    assert found is not None
    assert found.name == name


def test_the_newest_stay_and_each_nth(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=2, keep_every=4)

    for _ in range(10):
        store.save({})
    store._storage.sweep()

    assert saves(tmp_path) == ["save-000004", "save-000008", "save-000009", "save-000010"]


@given(
    numbers=st.sets(st.integers(1, 60)),
    bad=st.sets(st.integers(1, 60)),
    keep=st.integers(2, 5),
    every=st.none() | st.integers(1, 10),
)
def test_what_goes_is_good_old_and_no_nth(
    numbers: set[int], bad: set[int], keep: int, every: int | None
) -> None:
    gone = set(outdated(numbers, keep=keep, every=every, is_good=lambda one: one not in bad))

    good = sorted(numbers - bad)
    nth = {number for number in numbers if every and number % every == 0}
    assert gone == set(good[:-keep]) - nth


@pytest.mark.parametrize("keep", [0, 1, -1])
def test_fewer_than_two_are_never_kept(tmp_path: Path, keep: int) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        Store(tmp_path, keep=keep)


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    Store(tmp_path / "a" / "b").save({})

    assert saves(tmp_path / "a" / "b") == ["save-000001"]


def test_a_relative_folder_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    Store("runs/a").save({})

    assert saves(tmp_path / "runs" / "a") == ["save-000001"]


def test_what_a_killed_save_left_is_swept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    host = os.uname().nodename.replace("-", "_")
    dead = tmp_path / f".staging-{host}-{2**22 - 1}-abcd-save-000007"
    alive = tmp_path / f".staging-{host}-{os.getppid()}-abcd-save-000007"
    elsewhere = tmp_path / ".staging-other-12-abcd-save-000007"
    for folder in (dead, alive, elsewhere):
        folder.mkdir()
        (folder / "tensors.safetensors").write_bytes(b"half")

    store.save({})

    assert not dead.exists()
    assert alive.exists()
    assert elsewhere.exists()
    os.utime(elsewhere, (0, 0))
    store.save({})
    assert not elsewhere.exists()


def test_two_writers_do_not_overwrite_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    monkeypatch.setattr(Store, "_numbers", lambda self: [])
    store.save({"by": "one"})

    with pytest.raises(WriteError, match="could not be written"):
        store.save({"by": "another"})

    assert store.read("save-000001").state == {"by": "one"}


def test_threads_that_save_at_once_take_turns(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=20)

    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(lambda number: store.save({"n": number}), range(12)))

    assert sorted(names) == store.names()
    assert [store.read(name).state["n"] for name in names] == list(range(12))


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")

    with pytest.raises(WriteError, match="could not be written"):
        Store(tmp_path / "run").save({})


def test_the_manifest_can_be_read_by_people_and_by_any_json(tmp_path: Path) -> None:
    name = Store(tmp_path).save({"model": {"w": torch.zeros(2, 3)}, "step": 7}, facts={"step": 7})

    text = (tmp_path / name / "manifest.json").read_text()

    read = json.loads(text)
    assert read["format"] == "gradkeeper checkpoint"
    assert read["state"] == {"model": {"w": {"$tensor": "model.w"}}, "step": 7}
    assert ' "state": {"model": {"w": {"$tensor": "model.w"}}, "step": 7},\n' in text
    assert ' "tensors": {"model.w": {"dtype": "float32", "shape": [2, 3]}},\n' in text


def test_every_file_and_folder_is_synced_before_the_save_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def name_of(handle: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{handle}")).name.split("-")[-1]

    def told(what: str, action: Callable[..., None]) -> Callable[..., None]:
        def tell(*arguments: Any) -> None:
            done.append(what or name_of(arguments[0]))
            action(*arguments)

        return tell

    monkeypatch.setattr(os, "fsync", told("", os.fsync))
    monkeypatch.setattr(os, "rename", told("RENAME", os.rename))
    monkeypatch.setattr(os, "replace", told("LATEST", os.replace))

    Store(tmp_path / "run").save({})

    assert done == [
        tmp_path.name.split("-")[-1],
        "tensors.safetensors",
        "manifest.json",
        "000001",
        "RENAME",
        "run",
        "latest",
        "LATEST",
        "run",
    ]


WRONG = {
    "empty": b"",
    "garbage": b"\xff\xfe{}",
    "no name": b"save-latest\n",
    "not there": b"save-000009\n",
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_damaged_latest_is_told_and_costs_no_checkpoint(
    tmp_path: Path, kind: str, wrong: bytes
) -> None:
    folder = str(tmp_path) if kind == "disk" else f"memory://latest/{tmp_path.name}"
    store = Store(folder)
    for number in range(3):
        store.save({"n": number})
    _put(folder, "latest", wrong)

    with pytest.warns(CheckpointWarning, match="`latest` (is damaged|names save-000009)"):
        found = Store(folder).load()

    assert found is not None
    assert found.state == {"n": 2}
    Store(folder).save({"n": 3})
    assert Store(folder).names() == ["save-000002", "save-000003", "save-000004"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Store(folder).load() is not None  # mended by the save


def test_a_damaged_latest_makes_no_damaged_checkpoint_look_unfinished(tmp_path: Path) -> None:
    folder = f"memory://latest/{tmp_path.name}"
    Store(folder).save({"n": 0})
    _put(folder, "latest", b"?")
    _put(folder, "save-000001/manifest.json", b"")

    with pytest.warns(CheckpointWarning, match="`latest` is damaged"):
        with pytest.raises(AllDamagedError):
            Store(folder).load()

    Store(folder).save({"n": 1})
    assert Store(folder).names() == ["save-000001", "save-000002"]  # for a person to look at


def test_a_latest_that_is_no_file_is_told(tmp_path: Path) -> None:
    Store(tmp_path).save({"n": 0})
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()

    with pytest.warns(CheckpointWarning, match="`latest` cannot be read: Is a directory"):
        assert Store(tmp_path).load() is not None


def _put(folder: str, name: str, content: bytes) -> None:
    with fsspec.open(f"{folder}/{name}", "wb") as stream:
        stream.write(content)
