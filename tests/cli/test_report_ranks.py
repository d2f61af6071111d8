"""`torchrun … -m gradkeeper run --report`: one page for all ranks."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number, x in enumerate(torch.randn(60, 8, 4), 1):
    {body}
dist.destroy_process_group()
"""
USUAL = """optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()"""
NEVER_ZEROED = USUAL.replace("optimizer.zero_grad()\n    ", "")
ONE_SKIPS = USUAL.replace(
    "optimizer.step()", "if number != 40 or dist.get_rank() != 1:\n        optimizer.step()"
)


def page_of(folder: Path, body: str) -> tuple[str, dict[str, Any]]:
    """The page, and what its script reads."""
    (folder / "train.py").write_text(SCRIPT.format(body=body))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    options = ["--exit-zero", "--norms", "--report", "page.html"]
    job = subprocess.run(
        [*command, "-m", "gradkeeper", "run", *options, "train.py"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert job.returncode == 0, job.stderr[-3000:]
    assert sorted(one.name for one in folder.iterdir()) == ["page.html", "train.py"]
    page = (folder / "page.html").read_text()
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return page, json.loads(data)


def windows(data: dict[str, Any], lane: int) -> list[dict[str, Any]]:
    shapes = [one for some, times in data["runs"] for one in some * times]
    return [data["shapes"][one] for one in shapes if data["shapes"][one]["lane"] == lane]


def test_ranks_that_do_the_same_are_told_as_one(tmp_path: Path) -> None:
    page, data = page_of(tmp_path, USUAL)

    assert "The books balance" in page
    assert "120 backward calls and 120 steps of 1 optimizer on 2 ranks." in page
    assert data["lanes"] == [{"name": "optimizer", "where": "ranks 0 and 1"}]
    assert {curve["where"] for curve in data["curves"]} == {"rank 0"}


def test_what_all_ranks_do_wrong_is_one_finding(tmp_path: Path) -> None:
    page, data = page_of(tmp_path, NEVER_ZEROED)

    assert [one["rule"] for one in data["findings"]] == ["GK101"]
    assert '<h1 id="verdict">1 finding</h1>' in page
    assert [bool(one["pins"]) for one in windows(data, 0)] == [False] + [True] * 59


def test_where_one_rank_parts_its_window_is_marked_and_its_number_told(tmp_path: Path) -> None:
    page, data = page_of(tmp_path, ONE_SKIPS)

    assert [lane["where"] for lane in data["lanes"]] == ["rank 0", "rank 1"]
    assert [one["rule"] for one in data["findings"]] == ["GK503"]
    assert '<span class="aside">rank 1</span>' in page
    assert [place for place, one in enumerate(windows(data, 1), 1) if one["pins"]] == [40]
