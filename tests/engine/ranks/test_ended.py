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
from gradkeeper.engine.ranks.rendezvous import Meeting

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
roll = RollCall(FailureNotes(), Journal())
assert len(roll.call(Meeting.EPOCH)) == 1
dist.destroy_process_group()
try:
    roll.call(Meeting.EPOCH)
except RankError as error:
    print(error)
"""


def test_a_group_of_ours_does_not_outlive_its_world() -> None:
    command = [sys.executable, "-c", CODE]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert "destroy_process_group() was called while the engine was in use" in done.stdout


SILENT = """
import threading
import torch.distributed as dist
from gradkeeper.engine.ranks import rendezvous

class Silent(dist.Store):
    def check(self, keys):
        threading.Event().wait()

    def set(self, key, value):
        threading.Event().wait()

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
rendezvous.LONGEST_ANSWER = 0.2
notes = rendezvous.FailureNotes()
notes.tell("raised an error", 1)
print(notes.of(0))
notes._store = Silent()
notes.tell("raised another", 2)
print(notes.of(0))
"""


def test_a_store_that_never_answers_is_not_waited_for() -> None:
    command = [sys.executable, "-c", SILENT]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "raised an error\nNone\n"
