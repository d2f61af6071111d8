"""A rank killed under torchrun: all start again, and end as if nothing had happened."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import KINDS
from tests.engine.ranks.programs import train_to_digest

ROOT = Path(__file__).resolve().parents[3]
OPTIONS: dict[str, Any] = {"items": 20, "size": 2, "keep": 3}
MICRO_STEPS = 10
FEW = {"ddp": [7], "fsdp": [4]}
"""Within a window, and at the end of one; each start of the ranks costs seconds."""


def under_torchrun(kind: str, folder: Path, options: dict[str, Any], restarts: int) -> list[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node=2", f"--max-restarts={restarts}", "--monitor-interval=0.1"]
    program = ["-m", "tests.engine.ranks.programs", kind, str(folder / "run"), json.dumps(options)]
    # Without it, ranks that start again may be given the addresses of those before them
    # (pytorch#135712, #167288), and wait for these in vain.
    settings = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*torchrun, *program],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=120 + 60 * restarts,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [(folder / f"digest-{rank}").read_text() for rank in range(2)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_killed_at_any_micro_step_changes_nothing(
    two_ranks: Pool, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    every = request.config.getoption("--slow")
    die_at = list(range(1, MICRO_STEPS + 1)) if every else FEW[kind]
    expected = two_ranks.run(train_to_digest, kind, str(tmp_path / "whole"), OPTIONS)

    found = under_torchrun(kind, tmp_path, OPTIONS | {"die_at": die_at}, restarts=len(die_at))

    assert found == [digest for _, digest in expected]
    assert {one.name for one in tmp_path.glob("died-*")} == {f"died-{one}" for one in die_at}
