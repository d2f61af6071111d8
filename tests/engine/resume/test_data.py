"""Data as people have it, killed and resumed bit for bit, or refused with the reason; and the table
that says so.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.resume.data_kinds import KINDS, table
from tests.engine.resume.test_killed import lives

ROOT = Path(__file__).resolve().parents[3]
OF_OTHERS = {name for name, kind in KINDS.items() if kind.needs not in ("", "torchdata")}
# Each stands for a way in which a place is found; the rest runs with --slow.
TELLING = ("stateful_map", "stateful_stream", "stateful_read")
EXACT = [
    pytest.param(name, marks=[] if name in TELLING else pytest.mark.slow)
    for name, kind in KINDS.items()
    if not kind.refused
]
REFUSED = [
    pytest.param(name, marks=pytest.mark.slow if name in OF_OTHERS else [])
    for name, kind in KINDS.items()
    if kind.refused
]


@pytest.mark.parametrize("kind", EXACT)
def test_killed_and_resumed_it_ends_with_the_bits_of_a_run_that_was_not(
    tmp_path: Path, kind: str
) -> None:
    [found] = lives(tmp_path, [("data", {"kind": kind}, "steps:5", 0)])

    assert found >= 4


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_exact_is_refused_with_the_reason(tmp_path: Path, kind: str) -> None:
    case = json.dumps([("data", {"kind": kind}, "steps:5", 0)])

    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.resume.killing", str(tmp_path), case],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode != 0
    assert f"PositionError: {KINDS[kind].refused}" in done.stderr


def test_the_guide_says_what_was_tried() -> None:
    page = (ROOT / "docs" / "guide" / "data.md").read_text()

    assert f"\n\n{table()}\n" in page
