"""The same, in processes that share nothing but what was saved."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def read(place: Path, case: str, workers: int, batches: int) -> list[str]:
    command = [sys.executable, "-m", "tests.engine.data.process", str(place), case]
    done = subprocess.run(
        [*command, str(workers), str(batches)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_new_process_goes_on_with_the_very_batches(tmp_path: Path, workers: int) -> None:
    whole = read(tmp_path / "whole", "nested", workers, 99)

    parts = [read(tmp_path / "parts", "nested", workers, batches) for batches in (3, 99)]

    assert len(whole) == 5
    assert [line for part in parts for line in part] == whole
