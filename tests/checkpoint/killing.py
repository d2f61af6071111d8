"""Saves without end, killed at random instants: run by test_killed in a process of its own.

python -m tests.checkpoint.killing FOLDER disk|behind|remote|careless KILLS SEED

Each child goes on from what its predecessor left, and says down a pipe which steps it was promised
to be durable. After each kill the newest checkpoint must be whole and at least as new as that.
"""

import os
import random
import signal
import sys
import time
import warnings
from typing import Any

import torch

from gradkeeper.checkpoint import CheckpointWarning, Store, WriteBehind
from gradkeeper.checkpoint.storage import Disk, RemoteStorage

LONGEST = 0.15
"""Seconds that a child lives at most, on a machine that is free; else as long as it takes for most
of them to save something."""


def state(step: int) -> dict[str, Any]:
    return {"step": step, "a": torch.full((50_000,), step), "b": [torch.full((7,), float(step))]}


def store(folder: str, mode: str) -> Store:
    made = Store(folder, keep=2, keep_every=50)
    if mode == "remote":
        # A file system that outlives a kill, treated as one that cannot rename.
        from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

        made._storage = RemoteStorage(folder, LocalFileSystem(), folder)
    if mode == "careless":
        made._storage = Careless(folder)
    return made


class Careless(Disk):
    """Writes in place: what this whole file must be able to catch."""

    def stage(self, name: str) -> str:
        staged = super().stage(name)
        super().commit(staged, name)
        return name

    def commit(self, staged: str, name: str) -> None:
        pass


def newest(folder: str, mode: str) -> int:
    """Its step; 0 if there is none. Only what a kill cannot explain is a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if mode == "remote" else "error", CheckpointWarning)
        found = store(folder, mode).load()
    if found is None:
        return 0
    step = found.state["step"]
    assert torch.equal(found.state["a"], torch.full((50_000,), step))
    assert torch.equal(found.state["b"][0], torch.full((7,), float(step)))
    return int(step)


def save_for_ever(folder: str, mode: str, promise: int) -> None:
    step = newest(folder, mode)
    writer = WriteBehind(store(folder, mode))
    while True:
        step += 1
        if mode == "behind":
            writer.save(state(step))
            durable = step - 1
        else:
            writer.save_now(state(step))
            durable = step
        os.write(promise, f"{durable}\n".encode())


def kill_once(folder: str, mode: str, seconds: float) -> int:
    """The last step that was promised."""
    reader, promise = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            save_for_ever(folder, mode, promise)
        finally:
            os._exit(1)
    os.close(promise)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the child ended before it was killed"
    with open(reader) as lines:
        return max((int(line) for line in lines), default=0)


def main() -> None:
    folder, mode, kills, seed = sys.argv[1:]
    torch.set_num_threads(1)
    chance = random.Random(int(seed))
    reached, longest = 0, LONGEST
    for _ in range(int(kills)):
        promised = kill_once(folder, mode, chance.uniform(0, longest))
        found = newest(folder, mode)
        assert found >= max(promised, reached), f"step {found}, promised {promised}, had {reached}"
        longest = longest * 1.05 if found == reached else max(LONGEST, longest * 0.99)
        reached = found
    store(folder, mode).save(state(reached + 1))
    left = [name for name in os.listdir(folder) if name.startswith(".staging")]
    assert not left, left
    print(reached)


if __name__ == "__main__":
    main()
