"""destroy_process_group() ends the ranks' own groups too, whatever still knows the engine."""

import subprocess
import sys

CODE = """
import os
import torch.distributed as dist
from gradkeeper.engine.errors import RankError
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.ranks.rendezvous import FailureNotes
from gradkeeper.engine.ranks.rendezvous import RollCall
from gradkeeper.engine.ranks.rendezvous import Moment

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
roll = RollCall(FailureNotes(), Journal())
assert len(roll.call(Moment.EPOCH)) == 1
dist.destroy_process_group()
try:
    roll.call(Moment.EPOCH)
except RankError as error:
    print(error)
"""


def test_a_group_of_ours_does_not_outlive_its_world() -> None:
    command = [sys.executable, "-c", CODE]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert "destroy_process_group() was called while the engine was in use" in done.stdout
