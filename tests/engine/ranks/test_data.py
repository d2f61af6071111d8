"""Data as people have it, shared by two ranks that are killed and resumed: bit for bit, or refused
with the reason. What is said of it is the last column of the table in docs/guide/data.md.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.resume.data_kinds import ITEMS, KINDS

TELLING = "stateful_stream"
"""The rest runs with --slow."""
DRAWN = ("web_resampled", "lit_combined")
"""Shards with repetition, and from two sets of items."""
EPOCHS = 2


def kinds(*, refused: bool) -> list[object]:
    return [
        pytest.param(name, marks=[] if name == TELLING else pytest.mark.slow)
        for name, kind in KINDS.items()
        if bool(kind.refused) is refused
    ]


def two_ranks(folder: Path, kind: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.engine.ranks.lives", str(folder), kind],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("kind", kinds(refused=False))
def test_ranks_that_were_killed_end_with_the_bits_of_ranks_that_were_not(
    tmp_path: Path, kind: str
) -> None:
    done = two_ranks(tmp_path, kind)

    assert done.returncode == 0, done.stderr[-4000:]
    lives, items = json.loads(done.stdout)
    assert lives >= 3
    # Each item is read by one of them; litdata leaves out what does not fit, others repeat it.
    assert kind in DRAWN or sum(items) <= EPOCHS * (ITEMS + 2)


@pytest.mark.parametrize("kind", kinds(refused=True))
def test_ranks_are_refused_what_one_process_is(tmp_path: Path, kind: str) -> None:
    done = two_ranks(tmp_path, kind)

    assert done.returncode != 0
    assert f"PositionError: {KINDS[kind].refused}" in done.stderr
