"""Saves that are kept as promised: none is dropped, none is left behind, none fails unheard."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import fsspec  # type: ignore[import-untyped]
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]
from torch import nn
from torch.optim import SGD

from gradkeeper.checkpoint import DamagedError, Store, WriteError
from gradkeeper.engine import Engine, EngineWarning


class Slow(MemoryFileSystem):  # type: ignore[misc]
    """Takes its time with each manifest, which is what finishes a save."""

    protocol = "slow"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    seconds = 0.0
    failing: ClassVar[set[str]] = set()

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode == "wb" and path.endswith("manifest.json"):
            time.sleep(self.seconds)
            if any(name in path for name in self.failing):
                self.failing.clear()
                raise OSError(28, "No space left on device")
        return super()._open(path, mode=mode, **options)


fsspec.register_implementation("slow", Slow, clobber=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    yield f"slow://{tmp_path.name}"
    Slow.seconds = 0.0
    Slow.failing.clear()


class Stop(Exception):  # noqa: N818
    """In place of a fault."""


def built(folder: object, every: int) -> tuple[Engine, nn.Linear]:
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    engine = Engine(
        net,
        SGD(net.parameters(), lr=0.1),
        checkpoint=folder,  # type: ignore[arg-type]
        save_every=every,
        keep=20,
    )
    return engine, net


def train(
    folder: object, *, every: int = 1, leave: int | None = None, fault: int | None = None
) -> Engine:
    """Eight steps, or fewer."""
    engine, net = built(folder, every)
    for window in engine.windows([torch.ones(2, 4)] * 16, size=2):
        with window:
            for x in window:
                window.backward(net(x).mean())
                if window.step == fault:
                    raise Stop
        if window.step == leave:
            break
    return engine


def steps_in(folder: str) -> list[int]:
    store = Store(folder)
    return [store.look(name).facts["steps"]["optimizer"] for name in store.names()]


def test_a_loop_that_is_left_by_break_has_its_saves_on_disk(folder: str) -> None:
    Slow.seconds = 0.3

    train(folder, every=3, leave=8)

    assert steps_in(folder) == [3, 6]


def test_a_loop_that_is_left_right_after_a_save_was_due_saves_it(folder: str) -> None:
    Slow.seconds = 0.3

    train(folder, every=3, leave=6)

    assert steps_in(folder) == [3, 6]


def test_a_loop_that_is_left_by_an_exception_has_its_saves_on_disk(folder: str) -> None:
    Slow.seconds = 0.3

    with pytest.raises(Stop):
        train(folder, every=3, fault=7)

    assert steps_in(folder) == [3, 6]


def test_steps_that_outrun_the_disk_wait_for_it_and_none_is_dropped(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Slow.seconds = 0.3

    train(folder)

    assert steps_in(folder) == [1, 2, 3, 4, 5, 6, 7, 8]
    (line,) = capsys.readouterr().err.splitlines()
    assert "steps are faster than slow://" in line
    assert "None is left out; with a larger save_every it waits less" in line


def last_durable(folder: str) -> int:
    """What a resume would go on from, were the process killed now."""
    store = Store(folder)
    for name in reversed(store.names()):
        with suppress(DamagedError):  # it is being written
            return int(store.look(name).facts["steps"]["optimizer"])
    return 0


@pytest.mark.parametrize("every", [1, 3])
def test_at_no_step_would_a_kill_cost_more_than_two_rounds(folder: str, every: int) -> None:
    Slow.seconds = 0.2
    engine, net = built(folder, every)
    at_stake = []

    for window in engine.windows([torch.ones(2, 4)] * 8):
        with window:
            for x in window:
                window.backward(net(x).mean())
        at_stake.append(window.step - last_durable(folder))

    assert max(at_stake) <= 2 * every
    assert max(at_stake) > every  # or nothing was written behind, and this shows nothing


def test_a_disk_that_keeps_up_is_not_spoken_of(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    train(folder, every=4)

    assert steps_in(folder) == [4, 8]
    assert capsys.readouterr().err == ""


def test_a_failed_write_is_told_once_and_that_call_still_saves(folder: str) -> None:
    Slow.failing.add("save-000002")

    with pytest.raises(WriteError, match="could not be written: No space left on device"):
        train(folder)

    # The second failed, the third was told of it: and is there, under the number that was free.
    assert steps_in(folder) == [1, 3]
    net = nn.Linear(4, 1)
    again = Engine(net, SGD(net.parameters(), lr=0.1), checkpoint=folder)
    assert again.resume()
    assert again.steps == {"optimizer": 3}


def test_a_failed_write_is_told_also_where_the_loop_is_left(folder: str) -> None:
    Slow.failing.add("save-000002")

    with pytest.warns(EngineWarning, match="No space left on device"):
        train(folder, leave=3)

    assert steps_in(folder) == [1, 3]


def test_the_last_write_of_a_loop_is_told_of_at_its_end(folder: str) -> None:
    Slow.failing.add("save-000002")

    with pytest.raises(WriteError, match="No space left on device"):
        train(folder, every=4)

    assert steps_in(folder) == [4]


TOLD = """
import os, signal, sys, torch
sys.path.insert(0, sys.argv[2])
from tests.engine.resume.test_promised import Slow, steps_in
from gradkeeper import Engine

net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
engine = Engine(net, optimizer, checkpoint=sys.argv[1], save_every=1)
Slow.failing.add("save-000002")
try:
    for window in engine.windows([torch.ones(2, 4)] * 9):
        with window:
            for x in window:
                window.backward(net(x).mean())
        if window.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
finally:
    print(steps_in(sys.argv[1]))
"""


def test_who_is_told_to_end_saves_and_ends_though_the_write_before_failed(folder: str) -> None:
    root = str(Path(__file__).resolve().parents[3])
    command = [sys.executable, "-c", TOLD, folder, root]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 143, done.stderr
    assert done.stdout == "[1, 3]\n"
    assert "No space left on device" in done.stderr
