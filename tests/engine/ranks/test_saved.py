"""Checkpoints of several ranks: wherever a run is cut, it goes on to the very same end."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import KINDS
from tests.engine.ranks.programs import train_to_digest

pytestmark = pytest.mark.filterwarnings("ignore:layer '1' normalises")


def cut_after(folder: Path, number: int, target: Path) -> Path:
    """The folder as a kill after that save would have left it."""
    target.mkdir()
    for name in sorted(one.name for one in folder.iterdir() if one.name.startswith("save-")):
        if int(name.removeprefix("save-")) <= number:
            shutil.copytree(folder / name, target / name)
    return target


def check_every_cut(
    pool: Pool, kind: str, folder: Path, options: dict[str, Any], every: int
) -> int:
    expected = pool.run(train_to_digest, kind, str(folder / "whole"), options)
    saves = len(list((folder / "whole").glob("save-*")))
    for number in range(1, saves, every):
        cut = cut_after(folder / "whole", number, folder / f"cut-{number}")
        found = pool.run(train_to_digest, kind, str(cut), options)
        assert [digest for _, digest in found] == [digest for _, digest in expected], number
        assert all(resumed for resumed, _ in found)
    return saves


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", ["distributed", "uneven"])
def test_a_run_cut_at_any_micro_step_ends_bit_for_bit_the_same(
    two_ranks: Pool, tmp_path: Path, kind: str, sampler: str, request: pytest.FixtureRequest
) -> None:
    options = {"sampler": sampler, "coupled": kind == "ddp"}
    every = 1 if request.config.getoption("--slow") else 5

    saves = check_every_cut(two_ranks, kind, tmp_path, options, every)

    assert saves >= 20
