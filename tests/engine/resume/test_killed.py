"""Killed at any instant and started anew, a run ends with the bits of one that was never killed.

The programs and what happens to them: see `programs` and `killing`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FEW = [
    ("plain", {"workers": 2}, "steps:2"),
    ("plain", {"workers": 2, "save_every": 1}, "instants"),
    ("plain", {}, "writes"),
    ("plain", {"workers": 2}, "term"),
    ("half", {}, "steps:2"),
    ("owners", {}, "steps:2"),
    ("epochs", {}, "steps:2"),
    ("closure", {}, "steps:2"),
    ("stateful", {}, "steps:2"),
    ("manual", {}, "steps:2"),
]
MANY = [
    *(("plain", {"workers": 2}, f"steps:{count}") for count in range(3, 31)),
    ("plain", {}, "steps:2"),
    ("plain", {"precision": "fp16"}, "steps:2"),
    ("plain", {"workers": 2, "persistent": True}, "steps:2"),
    ("plain", {"workers": 2, "persistent": True, "save_every": 1}, "steps:9"),
    ("plain", {"workers": 2, "save_every": 2}, "steps:13"),
    ("plain", {"save_every": 1}, "writes"),
    ("plain", {"workers": 2}, "instants"),
    ("plain", {"save_every": 2}, "term"),
    ("half", {}, "term"),
    ("owners", {"save_every": 3}, "instants"),
    ("owners", {}, "writes"),
    ("epochs", {}, "term"),
    ("epochs", {}, "instants"),
    ("epochs", {}, "writes"),
    ("closure", {}, "term"),
    ("stateful", {"workers": 2}, "steps:2"),
    ("stateful", {"workers": 2}, "term"),
    ("manual", {}, "writes"),
]


def run(folder: Path, program: str, options: dict[str, Any], how: str, seed: int) -> dict[str, Any]:
    module = "tests.engine.resume.killing"
    command = [sys.executable, "-m", module, program, json.dumps(options), str(folder), how]
    done = subprocess.run(
        [*command, str(seed)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("program", "options", "how"), FEW)
def test_a_killed_run_ends_with_the_bits_of_one_that_was_not(
    tmp_path: Path, program: str, options: dict[str, Any], how: str
) -> None:
    found = run(tmp_path, program, options, how, seed=0)

    assert found["exact"]
    assert found["lives"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize(("program", "options", "how"), MANY)
def test_however_it_is_killed(
    tmp_path: Path, program: str, options: dict[str, Any], how: str, seed: int
) -> None:
    assert run(tmp_path, program, options, how, seed)["exact"]


def test_a_run_that_forgets_a_generator_is_caught(tmp_path: Path) -> None:
    found = run(tmp_path, "forgetful", {}, "steps:2", seed=0)

    assert not found["exact"]
