"""A disk that is full: a clear failure, and the checkpoint before it is as good as ever."""

import subprocess
import sys
from pathlib import Path

import pytest

from gradkeeper.checkpoint import Store

SCRIPT = """
import resource, sys, torch
from gradkeeper.checkpoint import Store, WriteBehind, WriteError

folder, limit, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
store = Store(folder)
store.save({"w": torch.zeros(10), "step": 1})
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
state = {"w": torch.ones(1_000_000), "step": 2, "list": list(range(2000))}
try:
    if how == "now":
        store.save(state)
    else:
        with WriteBehind(store) as writer:
            writer.save(state)
except WriteError as error:
    print(error)
found = store.load()
print(found.name, found.state["step"], bool(found.state["w"].any()))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(store.save({"step": 3}))
"""


@pytest.mark.parametrize("how", ["now", "behind"])
@pytest.mark.parametrize("limit", [0, 1, 1000, 4_000_000])
def test_the_save_fails_clearly_and_the_one_before_stays(
    tmp_path: Path, limit: int, how: str
) -> None:
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path), str(limit), how]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    failure, found, after = done.stdout.splitlines()
    assert "the checkpoint could not be written: File too large" in failure
    assert "those that were there before still are" in failure
    assert found == "save-000001 1 False"
    assert after == "save-000002"
    assert Store(tmp_path).names() == ["save-000001", "save-000002"]
    assert not list(tmp_path.glob(".*"))
