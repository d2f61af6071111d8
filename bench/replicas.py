"""What comparing the replicas costs (GK504): two ranks, with a comparison after no step, after no
step again (A/A), and after every step; trained by the engine, and in a watched loop.

Usage: scripts/bench replicas [--rounds 15]

Two processes over gloo, DistributedDataParallel, a micro-batch for each step. Blocks of steps take
turns, in turning order; a ratio is the median over rounds of a block's processor time against the
one without comparisons beside it, of both ranks together. The last column follows from it: of 1,000
steps few are compared, the first ones and then ever fewer.
"""

import argparse
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gradkeeper import replicas
from gradkeeper.engine import Engine
from gradkeeper.watcher import Watch

RANKS = 2
STEPS = 1000
NEVER, AGAIN, EVERY = "never", "never again", "every"
WAYS = (NEVER, AGAIN, EVERY)
WHERE = ("gradkeeper.engine.ranks.replicas.is_due", "gradkeeper.watcher.replicas.is_due")
Step = Callable[[], None]


def transformer() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    parts = (nn.Embedding(512, 256), nn.TransformerEncoder(layer, 3), nn.Linear(256, 512))
    return nn.Sequential(*parts), torch.randint(512, (4, 64))


def small_tensors() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(*(nn.Linear(8, 8) for _ in range(500))), torch.randn(4, 8)


MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, torch.Tensor]], int]] = {
    "transformer": (transformer, 6),
    "1,000 small tensors": (small_tensors, 6),
}
"""What is trained, and how many steps a block has."""


def compared(count: int) -> int:
    """Of so many steps, those after which replicas are compared, the last one included."""
    due = sum(replicas.is_due(step) for step in range(1, count + 1))
    return due + (not replicas.is_due(count))


def by_engine(model: nn.Module, x: torch.Tensor) -> Step:
    engine = Engine(model, torch.optim.AdamW(model.parameters(), lr=1e-5), progress=False)

    def step() -> None:
        with engine.window() as window:
            window.backward(model(x).square().mean())

    return step


def by_hand(model: nn.Module, x: torch.Tensor) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


@contextmanager
def due(answer: bool) -> Iterator[None]:
    with patch(WHERE[0], lambda _: answer), patch(WHERE[1], lambda _: answer):
        yield


def block(step: Step, steps: int, way: str) -> float:
    """Seconds of processor time for each step, of all ranks."""
    dist.barrier()
    with due(way == EVERY):
        began = time.process_time()
        for _ in range(steps):
            step()
        spent = torch.tensor(time.process_time() - began, dtype=torch.float64)
    dist.all_reduce(spent)
    return float(spent) / steps


def measure(step: Step, steps: int, rounds: int) -> list[dict[str, float]]:
    found = []
    for turn in range(rounds + 2):
        shift = turn % len(WAYS)
        spent = {way: block(step, steps, way) for way in WAYS[shift:] + WAYS[:shift]}
        if turn > 1:  # the first rounds warm up
            found.append(spent)
    return found


def tell(name: str, by: str, model: nn.Module, found: list[dict[str, float]]) -> None:
    numbers = sum(parameter.numel() for parameter in model.parameters())
    each = statistics.median(spent[NEVER] for spent in found) * 1e3 / RANKS
    again, every = (
        statistics.median(spent[way] / spent[NEVER] for spent in found) for way in (AGAIN, EVERY)
    )
    amortised = 1 + (every - 1) * compared(STEPS) / STEPS
    cells = [name, f"{numbers:,}", by, f"{each:.1f} ms", f"{again:.3f}", f"{every:.3f}"]
    print("|", " | ".join([*cells, f"{amortised:.4f}"]), "|", flush=True)


def work(rank: int, port: int, rounds: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(RANKS)}  # by which a watch knows its rank
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    for name, (make, steps) in MODELS.items():
        for by, train in (("engine", by_engine), ("watched loop", by_hand)):
            torch.manual_seed(0)
            bare, x = make()
            step = train(DistributedDataParallel(bare), x)
            if train is by_engine:
                found = measure(step, steps, rounds)
            else:
                with Watch(on_finding="record") as watch:
                    found = measure(step, steps, rounds)
                assert watch.replicas, "nothing was compared"
            if rank == 0:
                tell(name, by, bare, found)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    print(f"of {STEPS:,} steps, {compared(STEPS)} are compared\n")
    print(
        "| model | numbers | trained by | a step | A/A | compared after every step | 1,000 steps |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(work, (port, args.rounds), RANKS)  # type: ignore[attr-defined,no-untyped-call]


if __name__ == "__main__":
    main()
