"""A disk that is full: a clear failure, and the checkpoint before it is as good as ever."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradkeeper.checkpoint import Store

# One process for all: to import torch takes longer than they do.
SCRIPT = """
import json, resource, sys, torch
from gradkeeper.checkpoint import Store, WriteBehind, WriteError


def filled(folder, limit, how):
    store = Store(folder)
    store.save({"w": torch.zeros(10), "step": 1})
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    state = {"w": torch.ones(1_000_000), "step": 2, "list": list(range(2000))}
    failure = None
    try:
        if how == "now":
            store.save(state)
        else:
            with WriteBehind(store) as writer:
                writer.save(state)
    except WriteError as error:
        failure = str(error)
    found = store.load()
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    kept = [found.name, found.state["step"], bool(found.state["w"].any())]
    return failure, kept, store.save({"step": 3})


print(json.dumps([filled(*case) for case in json.loads(sys.argv[1])]))
"""
CASES = [(limit, how) for how in ("now", "behind") for limit in (0, 1, 1000, 4_000_000)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("full")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[tuple[int, str], Any]:
    """What became of each case, in a folder of its own."""
    cases = [(str(folder / f"{limit}-{how}"), limit, how) for limit, how in CASES]
    command = [sys.executable, "-W", "error", "-c", SCRIPT, json.dumps(cases)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("limit", "how"), CASES)
def test_the_save_fails_clearly_and_the_one_before_stays(
    told: dict[tuple[int, str], Any], folder: Path, limit: int, how: str
) -> None:
    failure, kept, after = told[limit, how]

    assert "the checkpoint could not be written: File too large" in failure
    assert "those that were there before still are" in failure
    assert kept == ["save-000001", 1, False]
    assert after == "save-000002"
    store = folder / f"{limit}-{how}"
    assert Store(store).names() == ["save-000001", "save-000002"]
    assert not list(store.glob(".*"))
