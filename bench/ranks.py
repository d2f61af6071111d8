"""What several ranks cost: a window, the roll call at its end, the memory of both `sync`s, a save.

Usage: scripts/bench ranks [--rounds 40] [--processes 1 2 4]

Processes of one machine over loopback: with more of them than cores, the rest is waiting for a
core. A window is one micro-batch of a small MLP; ways to write it take turns, ten windows each, and
the best and the median round are told, per window. "Gathered" is the loop written by hand that
makes its loss and weight those of all ranks, as the engine does. A save is one of 100 MB of
weights, durable on return, to a disk that all processes share.
"""

import argparse
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Literal

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from gradkeeper.engine import Engine
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.ranks.fsdp import roots_of
from gradkeeper.engine.ranks.rendezvous import FailureNotes, Meeting, RollCall, Status
from gradkeeper.torch_private import unsharded_parameters

Action = Callable[[], object]
KINDS = ("DDP", "FSDP2")
SYNCS: tuple[Literal["last", "every"], ...] = ("every", "last")
WIDTH = 256
HEAVY = 2048
BLOCK = 10
"""Windows of one way, before the next one's turn."""


def model_of(kind: str) -> nn.Module:
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4)))
    return shared(model, kind)


def shared(model: nn.Module, kind: str) -> nn.Module:
    if kind == "FSDP2":
        fully_shard(model)
    elif dist.get_world_size() > 1:
        return DistributedDataParallel(model)
    return model


def timed(action: Action, rounds: int) -> list[float]:
    """Microseconds of each."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        times.append((time.perf_counter() - began) * 1e6)
    return times


def by_hand(kind: str, x: Tensor, *, gathered: bool = False) -> Action:
    model = model_of(kind)
    optimizer = SGD(model.parameters(), lr=0.01)
    heard = [torch.zeros(2, dtype=torch.float64) for _ in range(dist.get_world_size())]

    def step() -> None:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item()
        if gathered:
            mine = torch.tensor([loss.item(), len(x)], dtype=torch.float64)
            dist.all_gather(heard, mine)
        optimizer.step()

    return step


def by_engine(kind: str, x: Tensor, folder: str | None = None) -> Action:
    model = model_of(kind)
    engine = Engine(model, SGD(model.parameters(), lr=0.01), checkpoint=folder, progress=False)
    windows = iter(engine.windows([x] * 100_000))

    def step() -> None:
        with next(windows) as window:
            for batch in window:
                window.backward(model(batch).square().mean())

    return step


def ways_of(folder: str) -> dict[str, Action]:
    """To write a window."""
    x = torch.randn(8, WIDTH)
    ways: dict[str, Action] = {}
    for kind in KINDS if dist.get_world_size() > 1 else ("alone",):
        ways[f"window, {kind}, by hand"] = by_hand(kind, x)
        ways[f"window, {kind}, by hand (A/A)"] = by_hand(kind, x)
        ways[f"window, {kind}, by hand, gathered"] = by_hand(kind, x, gathered=True)
        ways[f"window, {kind}, engine"] = by_engine(kind, x)
        ways[f"window, {kind}, engine that may save"] = by_engine(kind, x, f"{folder}/{kind}")
    return ways


def in_turns(ways: dict[str, Action], rounds: int) -> dict[str, list[float]]:
    """Microseconds a window, by rounds; the first one warms up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(rounds + 1):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            dist.barrier()
            block = timed(ways[name], BLOCK)
            if turn:
                times[name].append(statistics.mean(block))
    return times


def pending_bytes(sync: Literal["last", "every"]) -> int:
    """Gradient memory that a rank holds between two micro-batches of a window."""
    model = model_of("FSDP2")
    engine = Engine(model, SGD(model.parameters(), lr=0.01), sync=sync)
    held = 0
    for window in engine.windows([torch.randn(8, WIDTH)] * 2, size=2):
        with window:
            for x in window:
                window.backward(model(x).square().mean())
                shards = [p.grad.to_local() for p in model.parameters() if p.grad is not None]  # type: ignore[attr-defined]
                whole = [leaf.grad for leaf in unsharded_parameters(roots_of(model))]
                grads = shards + [one for one in whole if one is not None]
                held = max(held, sum(one.numel() * one.element_size() for one in grads))
    return held


def saving(kind: str, folder: str, saves: int = 5) -> list[float]:
    layers = nn.Sequential(*(nn.Linear(HEAVY, HEAVY, bias=False) for _ in range(6)))
    model = shared(layers, kind)
    engine = Engine(model, SGD(model.parameters(), lr=0.01), checkpoint=f"{folder}/{kind}")
    return timed(engine.save, saves)


def decoding(ranks: int) -> list[float]:
    """The part of a roll call that grows with the number of ranks, beside the network's."""
    heard = torch.zeros(ranks, len(Status._fields), dtype=torch.float64)
    return timed(lambda: [Status._make(one) for one in heard.tolist()], 50)


def rank(number: int, size: int, rounds: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=number, world_size=size)
    rows = in_turns(ways_of(f"{folder}/windows"), rounds)
    memory = ""
    if size > 1:
        roll = RollCall(FailureNotes(), Journal())
        rows["roll call alone"] = timed(lambda: roll.call(Meeting.WIDE), 10 * rounds)
        kept = {sync: pending_bytes(sync) / 1024 for sync in SYNCS}
        memory = ", ".join(f'sync="{sync}" {held:.0f} KiB' for sync, held in kept.items())
    else:
        rows["words of 1,024 ranks, read"] = decoding(1024)
    for kind in KINDS:
        rows[f"save, {kind}"] = saving(kind, f"{folder}/saves")
    if number == 0:
        for name, times in rows.items():
            best, middle = min(times), statistics.median(times)
            print(f"| {size} | {name} | {best:.0f} | {middle:.0f} |", flush=True)
        if memory:
            print(f"| {size} | FSDP2, gradients held in mid-window: {memory} | | |", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
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
