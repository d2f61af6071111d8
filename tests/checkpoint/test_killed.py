"""SIGKILL at random instants: the one before is always there, and no half one is believed."""

import subprocess
import sys
from pathlib import Path

import pytest

MODES = ["disk", "behind", "remote"]
FEW = 25
MANY = 400


def run(folder: Path, mode: str, kills: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.checkpoint.killing", str(folder), mode, str(kills), "0"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def kill(folder: Path, mode: str, kills: int) -> int:
    """How many steps were saved in between."""
    done = run(folder, mode, kills)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("mode", MODES)
def test_a_kill_at_any_instant_loses_nothing_that_was_promised(mode: str, tmp_path: Path) -> None:
    assert kill(tmp_path / "run", mode, FEW) > 0


def test_a_store_that_writes_in_place_is_caught(tmp_path: Path) -> None:
    done = run(tmp_path / "run", "careless", 10 * FEW)

    assert done.returncode == 1
    assert "CheckpointWarning" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_hundreds_of_kills_lose_nothing_that_was_promised(mode: str, tmp_path: Path) -> None:
    assert kill(tmp_path / "run", mode, MANY) > MANY
