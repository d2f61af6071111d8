"""What watching costs: three trainings, with a step for every batch and for every fourth, plain,
plain again (A/A), watched, under detect_anomaly; and what entering and leaving a watch takes.

Rounds are interleaved, in turning order, so that a machine that slows down slows all of them. Of
each step the processor time is the median over rounds: what another process disturbs now and then
is left out, what a watch does at one and the same step is not. Before that, the memory of one watch
that goes on and on.
"""

import argparse
import gc
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise

import torch
from torch import nn

from gradkeeper.watcher import Watch

Train = Callable[[int, int], list[float]]
"""Takes a number of steps, and of batches for each; seconds of processor time for each step."""
WARM_UP = 16
"""A training is longer than the first windows, which are looked at closely."""
LIMITS = {"transformer": 1.01, "1,000 small tensors": 1.03, "tiny MLP": 1.15}
MOST_MILLISECONDS = 20
"""For entering and leaving."""
WINDOWS = (1, 4)


def transformer() -> Train:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(512, 256), nn.TransformerEncoder(layer, 3), nn.Linear(256, 512)
    )
    return loop(model, torch.randint(512, (4, 64)), lambda y: y.square().mean())


def small_tensors() -> Train:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(500)))
    return loop(model, torch.randn(4, 8), lambda y: y.square().mean())


def tiny_mlp() -> Train:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    return loop(model, torch.randn(16, 16), lambda y: y.square().mean())


def loop(
    model: nn.Module, x: torch.Tensor, loss_of: Callable[[torch.Tensor], torch.Tensor]
) -> Train:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def train(steps: int, window: int = 1) -> list[float]:
        """After some that are not counted."""
        ends = []
        for i in range((WARM_UP + steps) * window):
            loss = loss_of(model(x)) / window
            loss.backward()
            if (i + 1) % window == 0:
                optimizer.step()
                optimizer.zero_grad()
                ends.append(time.process_time())
        counted = ends[WARM_UP - 1 :]
        return [end - began for began, end in pairwise(counted)]

    return train


WORK: dict[str, tuple[Callable[[], Train], int]] = {
    "transformer": (transformer, 8),
    "1,000 small tensors": (small_tensors, 12),
    "tiny MLP": (tiny_mlp, 250),
}

QUICK = {"tiny MLP": 6}
"""So many times more rounds: a short one is more easily disturbed, and costs next to nothing."""


WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "plain": nullcontext,
    "plain again": nullcontext,
    "watched": lambda: Watch(on_finding="record"),
    "detect_anomaly": lambda: torch.autograd.set_detect_anomaly(True, check_nan=True),
}
SLOW, SLOW_EVERY = "detect_anomaly", 4
"""It takes as long as all the others, and nobody doubts its ratio: one round in so many."""


def compare(name: str, window: int, rounds: int) -> None:
    make, steps = WORK[name]
    rounds *= QUICK.get(name, 1)
    train = make()
    train(steps, window)
    spent: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    names = list(WAYS)
    for turn in range(rounds):
        first = turn % len(names)
        for way in names[first:] + names[:first]:
            if way == SLOW and turn % SLOW_EVERY:
                continue
            with WAYS[way]():
                spent[way].append(train(steps, window))
    seconds = {
        way: sum(statistics.median(step) for step in zip(*found, strict=True))
        for way, found in spent.items()
    }
    told = [f"{seconds[way] / seconds['plain']:.3f}" for way in names if way != "plain"]
    each = f"{seconds['plain'] / steps * 1e3:.2f} ms"
    print("|", " | ".join([name, str(window), each, *told, str(LIMITS[name])]), "|", flush=True)


def enter(rounds: int) -> None:
    """Entering and leaving, around nothing and around the first three steps of a training."""
    train = tiny_mlp()
    train(1, 1)
    bare, around = [], []
    for _ in range(rounds):
        began = time.process_time()
        with Watch(on_finding="record"):
            pass
        bare.append(time.process_time() - began)
        began = time.process_time()
        with Watch(on_finding="record"):
            few(train)
        watched = time.process_time() - began
        began = time.process_time()
        few(train)
        around.append(watched - (time.process_time() - began))
    each = [f"{statistics.median(found) * 1e3:.1f} ms" for found in (bare, around)]
    print(
        f"entering and leaving: {each[0]}; with a first training of {FEW} steps: {each[1]}; "
        f"at most {MOST_MILLISECONDS} ms"
    )


FEW = WARM_UP + 3


def few(train: Train) -> None:
    train(FEW - WARM_UP, 1)


def memory(steps: int) -> None:
    """Resident memory while one watch goes on and on."""
    train = tiny_mlp()
    with Watch(on_finding="record") as watch:
        for part in range(5):
            train(steps // 5, 1)
            gc.collect()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"after {(part + 1) * steps // 5:,} steps: {peak:.1f} MiB, {len(watch.tape)} events"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--memory", type=int, default=20_000, metavar="STEPS")
    parser.add_argument("--only", action="append", choices=WORK, metavar="TRAINING")
    args = parser.parse_args()
    torch.set_num_threads(1)
    memory(args.memory)  # first: what it reads is the highest so far
    print()
    enter(args.rounds)
    print("\n| training | batches | a step | plain again | watched | detect_anomaly | at most |")
    print("|---|---|---|---|---|---|---|")
    for name in args.only or WORK:
        for window in WINDOWS:
            compare(name, window, args.rounds)


if __name__ == "__main__":
    main()
