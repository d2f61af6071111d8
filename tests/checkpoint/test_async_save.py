"""Saves behind: one copy in memory, one write at a time, no failure unheard."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gradkeeper.checkpoint import (
    CheckpointWarning,
    Store,
    UnkeepableError,
    WriteBehind,
    WriteError,
)
from gradkeeper.checkpoint.checkpoint import Snapshot
from tests.checkpoint.same import same


class Slow(Store):
    """Waits with each write until it is told to go on."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gate = threading.Event()
        self.writing = 0
        self.most = 0

    def write(self, snapshot: Snapshot, facts: Any) -> str:
        self.writing += 1
        self.most = max(self.most, self.writing)
        assert self.gate.wait(30)
        name = super().write(snapshot, facts)
        self.writing -= 1
        return name


class Failing(Store):
    def __init__(self, folder: Path, error: Exception) -> None:
        super().__init__(folder)
        self.error: Exception | None = error

    def write(self, snapshot: Snapshot, facts: Any) -> str:
        error, self.error = self.error, None
        if error is not None:
            raise error
        return super().write(snapshot, facts)


def test_what_is_saved_is_the_state_at_the_call(tmp_path: Path) -> None:
    store = Slow(tmp_path)
    state: dict[str, Any] = {"w": torch.zeros(3), "v": torch.ones(2), "steps": [1]}
    facts = {"steps": [1]}
    with WriteBehind(store) as writer:
        writer.save(state, facts=facts)
        state["w"] += 1
        state["steps"].append(2)
        facts["steps"].append(2)
        store.gate.set()

    found = store.load()

    assert found is not None
    assert same(found.state, {"w": torch.zeros(3), "v": torch.ones(2), "steps": [1]})
    assert found.facts == {"steps": [1]}


def test_the_call_returns_before_the_write_is_done(tmp_path: Path) -> None:
    store = Slow(tmp_path)
    writer = WriteBehind(store)

    writer.save({"w": torch.zeros(3)})

    assert store.names() == []
    store.gate.set()
    writer.wait()
    assert store.names() == [writer.last] == ["save-000001"]
    writer.close()


def test_the_next_save_waits_for_the_last(tmp_path: Path) -> None:
    store = Slow(tmp_path)
    with WriteBehind(store) as writer:
        writer.save({"n": 0})
        threading.Timer(0.2, store.gate.set).start()
        for number in range(1, 6):
            writer.save({"n": number})

    assert store.most == 1
    assert store.names()[-1] == "save-000006"


def test_there_is_never_more_than_one_copy_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    empty = torch.empty

    def counted(*sizes: Any, **kinds: Any) -> torch.Tensor:
        made.append(int(sizes[0]))
        return empty(*sizes, **kinds)

    with WriteBehind(Store(tmp_path)) as writer:
        monkeypatch.setattr(torch, "empty", counted)
        for _ in range(4):
            writer.save({"w": torch.zeros(1000), "b": torch.zeros(10)})

    assert [size for size in made if size] == [4040]


def test_a_state_that_grows_is_copied_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with WriteBehind(store) as writer:
        writer.save({"w": torch.zeros(3)})
        writer.save({"w": torch.arange(1000.0), "v": torch.ones(7, dtype=torch.complex128)})

    found = store.load()

    assert found is not None
    assert same(found.state, {"w": torch.arange(1000.0), "v": torch.ones(7).to(torch.complex128)})


def save_again(writer: WriteBehind) -> None:
    writer.save({})


@pytest.mark.parametrize("then", [save_again, WriteBehind.wait, WriteBehind.close])
def test_a_failed_write_is_raised_once(tmp_path: Path, then: Callable[[WriteBehind], None]) -> None:
    writer = WriteBehind(Failing(tmp_path, WriteError("the disk is full")))
    writer.save({})

    with pytest.raises(WriteError, match="the disk is full"):
        then(writer)

    writer.close()


def test_the_save_that_is_told_of_a_failure_is_saved(tmp_path: Path) -> None:
    store = Failing(tmp_path, WriteError("the disk was full"))
    writer = WriteBehind(store)
    writer.save({"n": 1})

    with pytest.raises(WriteError, match="the disk was full"):
        writer.save({"n": 2})

    writer.close()
    found = store.load()
    assert found is not None
    assert found.state == {"n": 2}


def test_a_failure_of_any_kind_is_raised(tmp_path: Path) -> None:
    writer = WriteBehind(Failing(tmp_path, ZeroDivisionError("odd")))
    writer.save({})

    with pytest.raises(WriteError, match=r"a save behind failed: ZeroDivisionError\('odd'\)"):
        writer.close()


def test_a_save_now_is_durable_even_after_one_that_failed(tmp_path: Path) -> None:
    store = Failing(tmp_path, WriteError("the disk was full"))
    writer = WriteBehind(store)
    writer.save({"n": 1})

    with pytest.raises(WriteError, match="the disk was full"):
        writer.save_now({"n": 2})

    found = store.load()
    assert found is not None
    assert found.state == {"n": 2}
    writer.close()


def test_a_save_now_comes_after_the_one_being_written(tmp_path: Path) -> None:
    store = Slow(tmp_path)
    with WriteBehind(store) as writer:
        writer.save({"n": 1})
        threading.Timer(0.2, store.gate.set).start()

        assert writer.save_now({"n": 2}) == "save-000002"

    assert [store.read(name).state["n"] for name in store.names()] == [1, 2]


def test_what_cannot_be_kept_is_refused_at_the_call(tmp_path: Path) -> None:
    with WriteBehind(Store(tmp_path)) as writer:
        with pytest.raises(UnkeepableError):
            writer.save({"f": print})
        with pytest.raises(UnkeepableError):
            writer.save({}, facts={"w": torch.zeros(1)})


def test_a_writer_that_is_dropped_tells_of_its_failure(tmp_path: Path) -> None:
    writer = WriteBehind(Failing(tmp_path, WriteError("the disk is full")))
    writer.save({})
    writer._writing.join()

    with pytest.warns(CheckpointWarning, match="the disk is full"):
        del writer


def test_a_closed_writer_saves_no_more(tmp_path: Path) -> None:
    writer = WriteBehind(Store(tmp_path))
    writer.close()

    with pytest.raises(ValueError, match="closed"):
        writer.save({})


SCRIPT = """
import sys, torch
from gradkeeper.checkpoint import Store, WriteBehind, WriteError

class Failing(Store):
    def write(self, snapshot, facts):
        raise WriteError("the disk is full")

kind = Failing if sys.argv[2] == "fail" else Store
WriteBehind(kind(sys.argv[1])).save({"w": torch.zeros(5_000_000)})
"""


def run(folder: Path, how: str) -> str:
    command = [sys.executable, "-c", SCRIPT, str(folder), how]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def test_a_script_that_ends_without_closing_still_has_its_last_save(tmp_path: Path) -> None:
    told = run(tmp_path, "write")

    found = Store(tmp_path).load()
    assert found is not None
    assert found.state["w"].numel() == 5_000_000
    assert told == ""


def test_a_script_that_ends_without_closing_is_told_of_the_failure(tmp_path: Path) -> None:
    told = run(tmp_path, "fail")

    assert "the last save failed, and nobody asked: the disk is full" in told
