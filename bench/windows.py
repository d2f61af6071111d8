"""How far a window's step is from that of one big batch, where windows usually go wrong.

Usage: scripts/bench windows

Relative error of what SGD has spent when the epoch ends, in float64, in windows of 4: of a tail of
two micro-batches, and of four micro-batches with different numbers of items. 1 is a tail that was
not spent in its epoch. Frameworks come with the `peers` extra.
"""

import importlib.metadata
import sys

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench._engine_peers import quieten
from bench._windows_peers import LOOPS, Batches, Loop

CASES = {"a tail of 2 micro-batches": (8, 8), "62, 12, 30 and 7 items": (62, 12, 30, 7)}


def build() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(16, 10).double()


def batches(*sizes: int) -> Batches:
    torch.manual_seed(0)
    return [
        (torch.randn(n, 16, dtype=torch.float64) + place, torch.randint(10, (n,)))
        for place, n in enumerate(sizes)
    ]


def spent(loop: Loop, data: Batches) -> Tensor:
    model = build()
    before = _flat(model)
    loop(model, data)
    return before - _flat(model)


def one_big_batch(data: Batches) -> Tensor:
    model = build()
    x, y = (torch.cat(parts) for parts in zip(*data, strict=True))
    cross_entropy(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def _flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def error(loop: Loop, data: Batches) -> str:
    truth = one_big_batch(data)
    return f"{float((spent(loop, data) - truth).norm() / truth.norm()):.2g}"


def main() -> None:
    quieten()
    print(f"| relative error of the step | {' | '.join(CASES)} |")
    print("|---|---|---|")
    for name, (package, loop) in LOOPS.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            print(f"not installed, left out: {name}", file=sys.stderr)
            continue
        errors = [error(loop, batches(*sizes)) for sizes in CASES.values()]
        print(f"| {name.format(version)} | {' | '.join(errors)} |", flush=True)


if __name__ == "__main__":
    main()
