"""Several ranks: DDP with bucket views, no_sync, FSDP2, and one report for all under torchrun."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradkeeper.rules import replicas_differ

pytestmark = pytest.mark.slow

HEADER = """
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
"""
FOOTER = "\ndist.destroy_process_group()\n"

DDP = """
model = DistributedDataParallel(
    nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), gradient_as_bucket_view=True
)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for x in torch.randn(30, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

DDP_WINDOWS = """
import contextlib

model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(40, 8, 4)):
    last = (i + 1) % 4 == 0
    with contextlib.nullcontext() if last else model.no_sync():
        (model(x).square().mean() / 4).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
"""

FSDP = """
from torch.distributed.fsdp import fully_shard

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for x in torch.randn(30, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

FSDP_WINDOWS = """
from torch.distributed.fsdp import fully_shard

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(40, 8, 4)):
    last = (i + 1) % 2 == 0
    model.set_requires_gradient_sync(last)
    (model(x).square().mean() / 2).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
"""

FSDP_NARROW_WINDOWS = FSDP_WINDOWS.replace(
    "fully_shard(model)",
    "from torch.distributed.fsdp import MixedPrecisionPolicy\n"
    "fully_shard(model, mp_policy=MixedPrecisionPolicy(\n"
    "    param_dtype=torch.float16, reduce_dtype=torch.float32))",
)

FSDP_UNSYNCED = FSDP_WINDOWS.replace("gradient_sync(last)", "gradient_sync(False)")
FSDP_FIRST_SYNCED = FSDP_WINDOWS.replace("gradient_sync(last)", "gradient_sync(not last)")
FSDP_NOT_DIVIDED = FSDP_WINDOWS.replace(" / 2).backward", ").backward")

SKIPPED_ALONE = """
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(60, 8, 4)):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    if i < 40 or i % 2 or dist.get_rank() == 0:
        optimizer.step()
"""

FILLED_DIFFERENTLY = DDP_WINDOWS.replace(
    "    last =", "    if i == 33 and dist.get_rank() == 1:\n        continue\n    last ="
)

UNEVEN_BUT_JOINED = """
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with model.join():
    for x in torch.randn(20 + 7 * dist.get_rank(), 8, 4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
"""

LEFT_OUT = """
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(60, 8, 4)):
    optimizer.zero_grad()
    model(x + dist.get_rank()).square().mean().backward()
    if not (dist.get_rank() == 1 and i == 5):
        optimizer.step()
"""

RAW_ON_EVEN_STEPS = """
network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
model = DistributedDataParallel(network)
optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(8, 8, 4) + dist.get_rank()):
    optimizer.zero_grad()
    net = network if i % 2 == 0 else model
    net(x).square().mean().backward()
    optimizer.step()
"""

RAW_AND_EXCHANGED_BY_HAND = RAW_ON_EVEN_STEPS.replace(
    "    optimizer.step()",
    "    if i % 2 == 0:\n"
    "        for one in network.parameters():\n"
    "            dist.all_reduce(one.grad)\n"
    "            one.grad /= dist.get_world_size()\n"
    "    optimizer.step()",
)

KEPT_AND_SUMMED_BY_HAND = """
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(30):
    optimizer.zero_grad()
    with model.no_sync():
        for _ in range(3):
            (model(torch.randn(8, 4) + dist.get_rank()).square().mean() / 3).backward()
    for one in model.parameters():
        dist.all_reduce(one.grad)
        one.grad /= dist.get_world_size()
    optimizer.step()
"""
ALONE_AND_LOGGED = KEPT_AND_SUMMED_BY_HAND.replace(
    "        dist.all_reduce(one.grad)\n", "        dist.all_reduce(torch.ones(()))\n"
)
KEPT_AND_SUMMED_AS_COPIES = KEPT_AND_SUMMED_BY_HAND.replace(
    """    for one in model.parameters():
        dist.all_reduce(one.grad)
        one.grad /= dist.get_world_size()
""",
    """    flat = torch.cat([one.grad.flatten() for one in model.parameters()])
    dist.all_reduce(flat)
    parts = (flat / dist.get_world_size()).split([one.numel() for one in model.parameters()])
    for one, part in zip(model.parameters(), parts):
        one.grad.copy_(part.view_as(one))
""",
)

FLAG_AFTER_FORWARD = """
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(6):
    optimizer.zero_grad()
    for micro in range(4):
        x = torch.randn(8, 4) + dist.get_rank()
        loss = model(x).square().mean() / 4
        model.require_backward_grad_sync = micro == 3
        loss.backward()
    optimizer.step()
"""
FLAG_BEFORE_FORWARD = FLAG_AFTER_FORWARD.replace(
    "        model.require_backward_grad_sync = micro == 3\n", ""
).replace(
    "        loss = model",
    "        model.require_backward_grad_sync = micro == 3\n        loss = model",
)

BUFFERS = """
model = DistributedDataParallel(
    nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)), broadcast_buffers=False
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x in torch.randn(30, 8, 4) + dist.get_rank():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

LOCAL_SGD = """
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local

model = DistributedDataParallel(nn.Linear(4, 1))
alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
state = local.PostLocalSGDState(process_group=None, subgroup=alone, start_localSGD_iter=4)
model.register_comm_hook(state, local.post_localSGD_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(30, 8, 4) + dist.get_rank()):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    if i % 8 == 7:
        for one in model.parameters():
            dist.all_reduce(one.data)
            one.data /= dist.get_world_size()
"""

BEST_OF_RANK_0 = """
import copy

model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
best = copy.deepcopy(model.module.state_dict())
for x in torch.randn(30, 8, 4) + dist.get_rank():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
if dist.get_rank() == 0:
    model.module.load_state_dict(best)
"""

HSDP = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copy", "shard"))
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(12, 8, 4) + dist.get_rank()):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
HSDP_PARTED = (
    HSDP
    + """
    if i == 4 and dist.get_rank() == 3:
        model[2].weight.to_local().data.add_(1.0)
"""
)

HSDP_LEFT_OUT = HSDP.replace(
    "    optimizer.step()", "    if not (i == 7 and dist.get_rank() > 1):\n        optimizer.step()"
)

FSDP_AND_A_PROBE_OF_RANK_0 = """
from torch.distributed.fsdp import fully_shard

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
probe = nn.Linear(4, 1)
of_probe = torch.optim.SGD(probe.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(40, 8, 4) + dist.get_rank()):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if i in (5, 9):
        continue
    if dist.get_rank() == 0 and i % 6 == 4:
        of_probe.zero_grad()
        probe(x).square().mean().backward()
        of_probe.step()
    optimizer.step()
"""

WINDOWS_AND_A_PROBE_OF_RANK_0 = """
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
probe = nn.Linear(4, 1)
of_probe = torch.optim.SGD(probe.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(40, 8, 4) + dist.get_rank()):
    (model(x).square().mean() / 2).backward()
    if dist.get_rank() == 0 and i % 6 == 2:
        of_probe.zero_grad()
        probe(x).square().mean().backward()
        of_probe.step()
    if i % 2:
        optimizer.step()
        optimizer.zero_grad()
"""

ONE_OF_TWO_LEFT_OUT = """
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
body = torch.optim.SGD(model.module[0].parameters(), lr=0.01)
head = torch.optim.SGD(model.module[2].parameters(), lr=0.01)
for i, x in enumerate(torch.randn(40, 8, 4) + dist.get_rank()):
    body.zero_grad()
    head.zero_grad()
    model(x).square().mean().backward()
    body.step()
    if not (dist.get_rank() == 1 and i == 11):
        head.step()
"""

UNSYNCED = DDP_WINDOWS.replace("last else model", "False else model")
NEVER_ZEROED = DDP.replace("    optimizer.zero_grad()\n", "")
FSDP_NEVER_ZEROED = FSDP.replace("    optimizer.zero_grad()\n", "")


def launched(
    folder: Path, code: str, *options: str, ranks: int = 2, header: str = HEADER
) -> "subprocess.CompletedProcess[str]":
    (folder / "train.py").write_text(header + code + (FOOTER if header else ""))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*command, f"--nproc-per-node={ranks}", "-m", "gradkeeper", "run", *options, "train.py"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def torchrun(
    folder: Path, code: str, *more: str, ranks: int = 2, header: str = HEADER
) -> list[dict[str, Any]]:
    options = ["--exit-zero", "--format", "json", "--output", "found.json", *more]
    job = launched(folder, code, *options, ranks=ranks, header=header)
    assert job.returncode == 0, job.stderr[-3000:]
    assert "stops watching" not in job.stderr
    found: list[dict[str, Any]] = json.loads((folder / "found.json").read_text())["findings"]
    return found


def line_of(found: dict[str, Any], folder: Path) -> str:
    lines = (folder / str(found["path"])).read_text().splitlines()
    return lines[int(found["line"]) - 1].strip()


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(DDP, id="ddp with bucket views"),
        pytest.param(DDP_WINDOWS, id="ddp with no_sync"),
        pytest.param(UNEVEN_BUT_JOINED, id="ddp with uneven data, joined"),
        pytest.param(FSDP, id="fsdp2"),
        pytest.param(FSDP_WINDOWS, id="fsdp2 with windows"),
        pytest.param(FSDP_NARROW_WINDOWS, id="fsdp2 with windows in float16"),
        pytest.param(RAW_AND_EXCHANGED_BY_HAND, id="raw module, exchanged by hand"),
        pytest.param(KEPT_AND_SUMMED_BY_HAND, id="no_sync, and summed by hand"),
        pytest.param(KEPT_AND_SUMMED_AS_COPIES, id="no_sync, and summed by hand in one tensor"),
        pytest.param(FLAG_BEFORE_FORWARD, id="flag set before the forward"),
        pytest.param(BUFFERS, id="buffers of each rank's own"),
        pytest.param(LOCAL_SGD, id="local sgd"),
        pytest.param(FSDP_AND_A_PROBE_OF_RANK_0, id="fsdp2, and rank 0 trains more for itself"),
        pytest.param(WINDOWS_AND_A_PROBE_OF_RANK_0, id="ddp, and rank 0 trains more for itself"),
        pytest.param(BEST_OF_RANK_0, id="rank 0 loads its best weights at the end"),
    ],
)
def test_a_correct_training_of_two_ranks_is_silent(code: str, tmp_path: Path) -> None:
    assert torchrun(tmp_path, code) == []


@pytest.mark.parametrize("code", [UNSYNCED, ALONE_AND_LOGGED], ids=["plain", "a number is summed"])
def test_a_window_closed_inside_no_sync_is_reported(code: str, tmp_path: Path) -> None:
    found = torchrun(tmp_path, code)

    assert [one["rule"] for one in found] == ["GK501"]


@pytest.mark.parametrize("code", [FSDP_UNSYNCED, FSDP_FIRST_SYNCED], ids=["never", "too early"])
def test_a_step_on_shards_that_were_not_exchanged_is_reported(code: str, tmp_path: Path) -> None:
    found = torchrun(tmp_path, code)

    assert [(one["rule"], one["rank"]) for one in found] == [("GK501", None)]
    assert line_of(found[0], tmp_path) == "optimizer.step()"


def test_backwards_that_wait_unsharded_count_in_their_window(tmp_path: Path) -> None:
    found = torchrun(tmp_path, FSDP_NOT_DIVIDED)

    assert [one["rule"] for one in found] == ["GK201"]


def test_a_rank_that_skips_alone_is_told_with_its_line(tmp_path: Path) -> None:
    found = torchrun(tmp_path, SKIPPED_ALONE)

    (parted,) = [one for one in found if one["rule"] == "GK503"]
    assert line_of(parted, tmp_path) == "optimizer.step()"
    assert (parted["rank"], parted["count"]) == (1, 10)
    assert "rank 1 took no step" in parted["message"]
    assert {one["rank"] for one in found} == {1}


def test_ranks_that_fill_their_windows_differently_are_told(tmp_path: Path) -> None:
    found = torchrun(tmp_path, FILLED_DIFFERENTLY)

    (parted,) = [one for one in found if one["rule"] == "GK503"]
    assert "rank 1 stepped after 3 backward calls" in parted["message"]


def test_one_step_that_one_rank_leaves_out_is_told_with_what_came_of_it(tmp_path: Path) -> None:
    found = torchrun(tmp_path, LEFT_OUT)

    rules = {one["rule"]: one for one in found}
    assert "rank 1 took no step" in rules["GK503"]["message"]
    assert rules["GK503"]["count"] == 1
    assert (rules["GK504"]["rank"], rules["GK504"]["first_step"]) == (1, 8)
    assert rules["GK504"]["message"] == (
        "rank 1 holds other weights than the others after step 8: `model.module.weight` differs"
    )
    assert {line_of(one, tmp_path) for one in rules.values()} == {"optimizer.step()"}


def test_one_of_two_steps_that_one_rank_leaves_out_is_told(tmp_path: Path) -> None:
    found = torchrun(tmp_path, ONE_OF_TWO_LEFT_OUT)

    (parted,) = [one for one in found if one["rule"] == "GK503"]
    assert "rank 1 stepped after 1 backward call, the others took 2 steps" in parted["message"]
    assert line_of(parted, tmp_path) == "head.step()"


def test_measuring_asks_nothing_of_the_other_ranks(tmp_path: Path) -> None:
    """One that looked more closely than the others would wait for them for ever."""
    found = torchrun(tmp_path, FSDP_AND_A_PROBE_OF_RANK_0, "--norms", "--check-finite")

    assert found == []


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_raw_module_beside_its_wrapper_is_told_by_what_the_ranks_hold(
    ranks: int, tmp_path: Path
) -> None:
    (found,) = torchrun(tmp_path, RAW_ON_EVEN_STEPS, ranks=ranks)

    assert (found["rule"], found["first_step"]) == ("GK504", 1)
    assert "`model.module.0.weight` differs" in found["message"]
    assert line_of(found, tmp_path) == "optimizer.step()"


def test_a_flag_that_is_set_after_the_forward_is_told(tmp_path: Path) -> None:
    found = torchrun(tmp_path, FLAG_AFTER_FORWARD)

    assert [one["rule"] for one in found] == ["GK501", "GK504"]
    assert {line_of(one, tmp_path) for one in found} == {"optimizer.step()"}


@pytest.mark.parametrize(
    ("code", "parted"),
    [
        pytest.param(HSDP, [], id="equal"),
        pytest.param(HSDP_PARTED, ["GK504"], id="parted"),
        pytest.param(HSDP_LEFT_OUT, ["GK503", "GK504"], id="two ranks leave out a step"),
    ],
)
def test_copies_of_shards_are_compared_and_shards_are_not(
    code: str, parted: list[str], tmp_path: Path
) -> None:
    found = torchrun(tmp_path, code, ranks=4)

    assert [one["rule"] for one in found] == parted


@pytest.mark.parametrize("place", [0, 1], ids=["bad", "good"])
def test_the_examples_of_replicas_that_differ_are_judged_as_they_say(
    place: int, tmp_path: Path
) -> None:
    block = replicas_differ.rule.blocks[place]

    found = torchrun(tmp_path, block.code, header="")

    assert [(one["rule"], one["line"]) for one in found] == [("GK504", n) for n in block.marked]


def test_each_rank_has_its_own_tape_and_says_who_it_is(tmp_path: Path) -> None:
    torchrun(tmp_path, SKIPPED_ALONE, "--tape", "run.tape")

    for rank, name in enumerate(("run.tape", "run.tape.rank1")):
        events = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()[1:]]
        of_all = {one["event"] for one in events if one["event"] in ("digest", "replicas")}
        assert {one["rank"] for one in events if one["event"] not in of_all} == {rank}
        assert of_all == ({"digest", "replicas"} if rank == 0 else set())


@pytest.mark.parametrize("code", [NEVER_ZEROED, FSDP_NEVER_ZEROED], ids=["ddp", "fsdp2"])
def test_both_ranks_are_in_one_report(code: str, tmp_path: Path) -> None:
    (found,) = torchrun(tmp_path, code)

    assert (found["rule"], found["count"], found["rank"]) == ("GK101", 58, None)


LATE_TO_LEAVE = """
import atexit, time

def leave():
    time.sleep(2)
    open("left", "w").close()

if dist.get_rank() == 1:
    atexit.register(leave)
"""


def test_each_finding_is_shown_once_and_nobody_is_ended_early(tmp_path: Path) -> None:
    code = LATE_TO_LEAVE + SKIPPED_ALONE.replace("optimizer.zero_grad()", "pass")

    job = launched(tmp_path, code, "--fail-on", "error")

    assert job.returncode == 1
    assert job.stderr.count("GK101 stale-gradient (rank 0)") == 1
    assert job.stderr.count("GK503 ranks-disagree (rank 1)") == 1
    assert "GK101 stale-gradient (rank 1)" not in job.stderr
    assert "gradkeeper: found 2 errors" in job.stderr
    assert (tmp_path / "left").exists()


def test_a_finding_is_no_failure_to_the_launcher(tmp_path: Path) -> None:
    job = launched(tmp_path, NEVER_ZEROED)

    assert job.returncode == 0, job.stderr[-3000:]
    assert "gradkeeper: found 1 error" in job.stderr
