"""What watching costs: three trainings, plain, plain again (A/A), watched, under detect_anomaly.

Rounds are interleaved, in turning order, so that a machine that slows down slows all of them; each
ratio is the median over rounds of a round's processor time against the plain one beside it. Before
that, the memory of one watch that goes on and on.
"""

import argparse
import gc
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from gradkeeper.watcher import Watch

Train = Callable[[int], float]
WARM_UP = 16
"""A training is longer than the first windows, which are looked at closely."""
LIMITS = {"transformer": 1.02, "1,000 small tensors": 1.05, "tiny MLP": 1.15}


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

    def train(steps: int, warm_up: int = WARM_UP) -> float:
        """Seconds of processor time for `steps` steps, after some that are not counted."""
        began = 0.0
        for i in range(warm_up + steps):
            if i == warm_up:
                began = time.process_time()
            optimizer.zero_grad()
            loss = loss_of(model(x))
            loss.backward()
            optimizer.step()
        return time.process_time() - began

    return train


WORK: dict[str, tuple[Callable[[], Train], int]] = {
    "transformer": (transformer, 8),
    "1,000 small tensors": (small_tensors, 12),
    "tiny MLP": (tiny_mlp, 500),
}


WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "plain": nullcontext,
    "plain again": nullcontext,
    "watched": lambda: Watch(on_finding="record"),
    "detect_anomaly": lambda: torch.autograd.set_detect_anomaly(True, check_nan=True),
}


def compare(name: str, rounds: int) -> None:
    make, steps = WORK[name]
    train = make()
    train(steps)
    ratios: dict[str, list[float]] = {way: [] for way in WAYS}
    plain = []
    names = list(WAYS)
    for turn in range(rounds):
        first = turn % len(names)
        spent = {}
        for way in names[first:] + names[:first]:
            with WAYS[way]():
                spent[way] = train(steps) / steps
        plain.append(spent["plain"])
        for way, seconds in spent.items():
            ratios[way].append(seconds / spent["plain"])
    told = [f"{statistics.median(found):.3f}" for way, found in ratios.items() if way != "plain"]
    each = f"{statistics.median(plain) * 1e3:.2f} ms"
    print("|", " | ".join([name, each, *told, str(LIMITS[name])]), "|", flush=True)


def memory(steps: int) -> None:
    """Resident memory while one watch goes on and on."""
    train = tiny_mlp()
    with Watch(on_finding="record") as watch:
        for part in range(5):
            train(steps // 5)
            gc.collect()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"after {(part + 1) * steps // 5:,} steps: {peak:.1f} MiB, {len(watch.tape)} events"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--memory", type=int, default=20_000, metavar="STEPS")
    args = parser.parse_args()
    torch.set_num_threads(1)
    memory(args.memory)  # first: what it reads is the highest so far
    print("\n| training | a step | plain again | watched | detect_anomaly | watched, at most |")
    print("|---|---|---|---|---|---|")
    for name in WORK:
        compare(name, args.rounds)


if __name__ == "__main__":
    main()
