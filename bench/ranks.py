"""What several ranks cost: the roll call at each window's end, the memory of both `sync`s, a save.

Usage: scripts/bench ranks [--rounds 300] [--processes 1 2 4]

Processes of one machine over loopback. The best of many calls is told beside the median: with
more processes than cores, the rest is waiting for a core, not for the network. A window is one
micro-batch of a small MLP under DDP; the engine's loop beside the same loop written by hand. A
save is one of 100 MB of weights, durable on return, to a disk that all processes share.
"""

import argparse
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from gradkeeper.engine import Engine
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.ranks import fsdp_private
from gradkeeper.engine.ranks.news import News
from gradkeeper.engine.ranks.roll import Roll
from gradkeeper.engine.ranks.shards import roots_of
from gradkeeper.engine.ranks.words import Place

WIDTH = 256
HEAVY = 2048


def model_of() -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4)))


def timed(action: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Best and median, in microseconds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        times.append((time.perf_counter() - began) * 1e6)
    return min(times), statistics.median(times)


def by_hand(model: nn.Module, x: Tensor) -> Callable[[], None]:
    optimizer = SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item()
        optimizer.step()

    return step


def by_engine(model: nn.Module, x: Tensor) -> Callable[[], None]:
    windows = iter(Engine(model, SGD(model.parameters(), lr=0.01)).windows([x] * 100_000))

    def step() -> None:
        with next(windows) as window:
            for batch in window:
                window.backward(model(batch).square().mean())

    return step


def pending_bytes(sync: str) -> int:
    """Gradient memory that a rank holds between two micro-batches of a window."""
    model = model_of()
    fully_shard(model)
    engine = Engine(model, SGD(model.parameters(), lr=0.01), sync=sync)  # type: ignore[arg-type]
    held = 0
    for window in engine.windows([torch.randn(8, WIDTH)] * 2, size=2):
        with window:
            for x in window:
                window.backward(model(x).square().mean())
                shards = [p.grad.to_local() for p in model.parameters() if p.grad is not None]  # type: ignore[attr-defined]
                whole = [leaf.grad for leaf in fsdp_private.leaves(roots_of(model))]
                grads = shards + [one for one in whole if one is not None]
                held = max(held, sum(one.numel() * one.element_size() for one in grads))
    return held


def saving(kind: str, folder: str, saves: int = 5) -> tuple[float, float]:
    model: nn.Module = nn.Sequential(*(nn.Linear(HEAVY, HEAVY, bias=False) for _ in range(6)))
    if kind == "FSDP2":
        fully_shard(model)
    elif dist.get_world_size() > 1:
        model = DistributedDataParallel(model)
    engine = Engine(model, SGD(model.parameters(), lr=0.01), checkpoint=f"{folder}/{kind}")
    return timed(engine.save, saves)


def rank(number: int, size: int, rounds: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=number, world_size=size)
    x = torch.randn(8, WIDTH)
    model = model_of() if size == 1 else DistributedDataParallel(model_of())
    rows = {"window by hand": timed(by_hand(model, x), rounds)}
    rows["window by the engine"] = timed(by_engine(model, x), rounds)
    memory = ""
    if size > 1:
        roll = Roll(News(), Journal())
        rows["roll call"] = timed(lambda: roll.call(Place.WIDE), rounds)
        kept = {sync: pending_bytes(sync) / 1024 for sync in ("every", "last")}
        memory = ", ".join(f'sync="{sync}" {size:.0f} KiB' for sync, size in kept.items())
    for kind in ("DDP", "FSDP2"):
        rows[f"save, {kind}"] = saving(kind, f"{folder}/{size}")
    if number == 0:
        for name, (best, middle) in rows.items():
            print(f"| {size} | {name} | {best:.0f} | {middle:.0f} |", flush=True)
        if memory:
            print(f"| {size} | FSDP2, gradients held in mid-window: {memory} | | |", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    print("| processes | what | best, us | median, us |\n|---|---|---|---|", flush=True)
    for size in options.processes:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(rank, (size, options.rounds, port, folder), size)  # type: ignore[attr-defined,no-untyped-call]


if __name__ == "__main__":
    main()
