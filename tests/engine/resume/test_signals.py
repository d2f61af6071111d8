"""SIGTERM and SIGUSR1 save in mid-window and end with 143, in scripts run as users run them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradkeeper.checkpoint import Store

SCRIPT = """
import os, signal, sys, time, torch
from torch import nn
from torch.utils.data import DataLoader
from gradkeeper import Engine

folder, workers, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
{before}
torch.manual_seed(0)
net = nn.Linear(2, 1)
engine = Engine(net, torch.optim.SGD(net.parameters(), lr=0.1), checkpoint=folder)
{after}
data = [torch.ones(2) * i for i in range(4000)]
try:
    for window in engine.windows(DataLoader(data, num_workers=workers), size=1000):
        with window:
            for x in window:
                window.backward(net(x).mean())
                print("step", flush=True)
                if window.read > 2:
                    time.sleep(pause)
finally:
    print("finally", flush=True)
"""


def start(
    folder: Path, *, workers: int = 0, pause: float = 0.01, before: str = "", after: str = ""
) -> "subprocess.Popen[str]":
    """Returns when it has trained a little, in a process group of its own."""
    text = SCRIPT.format(before=before, after=after)
    process = subprocess.Popen(
        [sys.executable, "-c", text, str(folder), str(workers), str(pause)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for _ in range(3):
        line = process.stdout.readline()
        assert line == "step\n", process.communicate(timeout=60)[1]
    return process


def saved(folder: Path) -> dict[str, object]:
    found = Store(folder).load()
    assert found is not None
    return found.facts


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_in_mid_window_and_ends_with_143(tmp_path: Path, number: int) -> None:
    process = start(tmp_path)

    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 143, err
    assert out.endswith("finally\n")
    assert "open" in str(saved(tmp_path)["window"])


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGUSR1, marks=pytest.mark.slow)]
)
def test_a_signal_to_all_processes_does_not_end_the_workers_first(
    tmp_path: Path, number: int
) -> None:
    process = start(tmp_path, workers=2, pause=0.3)

    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 143, err
    assert "open" in str(saved(tmp_path)["window"])


def test_an_engine_with_nothing_to_save_does_not_end_the_one_that_trains(tmp_path: Path) -> None:
    after = "idle = Engine(net, torch.optim.SGD(net.parameters(), lr=0.1), checkpoint=folder + '2')"
    process = start(tmp_path, after=after)

    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 143, err
    assert "open" in str(saved(tmp_path)["window"])


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    process = start(tmp_path, pause=600)

    # A process without a core sees two as one, so more may have to follow.
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        time.sleep(1)
    out, _ = process.communicate()

    assert process.returncode == 143
    assert "finally" not in out
    assert Store(tmp_path).names() == []


def test_a_launcher_that_signals_twice_in_a_moment_signals_once(tmp_path: Path) -> None:
    process = start(tmp_path, pause=0.2)

    # Stopped meanwhile, it gets both at once, however long the sender has to wait for a core.
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGUSR1, signal.SIGCONT):
        process.send_signal(number)
    process.communicate(timeout=60)

    assert process.returncode == 143
    assert Store(tmp_path).names() == ["save-000001"]


def test_a_handler_of_the_users_own_has_its_turn_after_the_save(tmp_path: Path) -> None:
    before = "signal.signal(signal.SIGTERM, lambda *_: print(os.listdir(folder), flush=True))"
    process = start(tmp_path, before=before)

    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)

    assert process.returncode == 143
    assert "save-000001" in out


def test_a_signal_before_anything_is_trained_ends_at_once(tmp_path: Path) -> None:
    after = "os.kill(os.getpid(), signal.SIGTERM); print('never')"
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before="", after=after), str(tmp_path), "0", "0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert process.returncode == 143
    assert process.stdout == ""


LEAVING = """
import os, signal, sys, time, torch
from torch import nn
from gradkeeper import Engine

def train():
    net = nn.Linear(2, 1)
    engine = Engine(net, torch.optim.SGD(net.parameters(), lr=0.1), checkpoint=sys.argv[1])
    for window in engine.windows([torch.ones(2)] * 9, size=2):
        with window:
            for x in window:
                window.backward(net(x).mean())
        os.kill(os.getpid(), signal.SIGTERM)
        break

try:
    train()
    time.sleep(60)
    print("never")
finally:
    print("finally")
"""


def test_a_loop_that_is_left_after_a_signal_is_saved_and_the_process_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (done.returncode, done.stdout, done.stderr) == (143, "finally\n", "")
    assert saved(tmp_path)["steps"] == {"optimizer": 1}


def test_without_a_checkpoint_the_default_handlers_stay(tmp_path: Path) -> None:
    from tests.engine.problems import classifier, engine_of

    there = signal.getsignal(signal.SIGTERM)
    engine_of(classifier())

    assert signal.getsignal(signal.SIGTERM) is there
