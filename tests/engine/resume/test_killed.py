"""Killed at any instant and started anew, a run ends with the bits of one that was never killed.

The programs and what happens to them: see `programs` and `killing`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

Case = tuple[str, dict[str, Any], str, int]
"""A program, its options, how it is killed, and the seed of random kills."""

# A process of its own takes seconds to import torch: so each goes through several cases.
FEW: dict[str, list[Case]] = {
    "plain": [
        ("plain", {"workers": 2}, "steps:4", 0),
        # Two windows of four: the save after the first is on disk before the third begins.
        ("plain", {"save_every": 1}, "steps:9", 0),
        ("plain", {"workers": 2, "save_every": 1}, "instants", 0),
        ("plain", {}, "writes", 0),
        ("plain", {"workers": 2}, "term", 0),
    ],
    "others": [
        ("half", {}, "steps:4", 0),
        ("owners", {}, "steps:3", 0),
        ("epochs", {}, "steps:5", 0),
        ("closure", {}, "steps:3", 0),
        ("stateful", {}, "steps:4", 0),
        ("manual", {}, "steps:3", 0),
    ],
}
RANDOM: list[tuple[str, dict[str, Any], str]] = [
    ("plain", {"workers": 2}, "instants"),
    ("plain", {"workers": 2, "save_every": 1}, "instants"),
    ("plain", {"save_every": 1}, "writes"),
    ("plain", {"save_every": 2}, "term"),
    ("half", {}, "term"),
    ("owners", {"save_every": 3}, "instants"),
    ("owners", {}, "writes"),
    ("epochs", {}, "term"),
    ("epochs", {}, "instants"),
    ("epochs", {}, "writes"),
    ("closure", {}, "term"),
    ("stateful", {"workers": 2}, "term"),
    ("manual", {}, "writes"),
]
EVERY = range(2, 31)
"""After each micro-step of the run: three epochs of ten."""
MANY: dict[str, list[Case]] = {
    **{f"steps {n}": [("plain", {"workers": 2}, f"steps:{n}", 0)] for n in EVERY},
    "others": [
        ("plain", {}, "steps:2", 0),
        ("plain", {"precision": "fp16"}, "steps:2", 0),
        ("plain", {"workers": 2, "persistent": True}, "steps:2", 0),
        ("plain", {"workers": 2, "persistent": True, "save_every": 1}, "steps:9", 0),
        ("plain", {"workers": 2, "save_every": 2}, "steps:13", 0),
        *((name, {}, "steps:2", 0) for name in ("half", "owners", "epochs", "closure", "manual")),
        ("stateful", {"workers": 2}, "steps:2", 0),
    ],
    **{
        f"{program} {how} {number}": [(program, options, how, seed) for seed in (1, 2, 3)]
        for number, (program, options, how) in enumerate(RANDOM)
    },
}


def lives(folder: Path, cases: list[Case]) -> list[int]:
    """Of each case; -1 if it did not end with the bits of a run that was never killed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.resume.killing", str(folder), json.dumps(cases)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("cases", FEW.values(), ids=FEW)
def test_a_killed_run_ends_with_the_bits_of_one_that_was_not(
    tmp_path: Path, cases: list[Case]
) -> None:
    found = dict(zip(map(str, cases), lives(tmp_path, cases), strict=True))

    assert [case for case, number in found.items() if number < 2] == []


@pytest.mark.slow
@pytest.mark.parametrize("cases", MANY.values(), ids=MANY)
def test_however_it_is_killed(tmp_path: Path, cases: list[Case]) -> None:
    found = dict(zip(map(str, cases), lives(tmp_path, cases), strict=True))

    assert [case for case, number in found.items() if number == -1] == []


def test_a_run_that_forgets_a_generator_is_caught(tmp_path: Path) -> None:
    assert lives(tmp_path, [("forgetful", {}, "steps:2", 0)]) == [-1]
