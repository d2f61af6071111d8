"""What gradients cost in memory: zeroed in place or freed, and one big batch against a window.

Usage: scripts/bench memory [--megabytes 192] [--rows 8192]

Every figure is the peak of resident memory of a process of its own, so it holds Python and torch
as well: the first row says how much that is. Only differences between rows mean something.
"""

import argparse
import resource
import subprocess
import sys

import torch
from torch import nn

WIDTH = 1024
MEBI = 2**20


def nothing(_: int) -> None:
    torch.ones(1)


def zeroing(megabytes: int, *, to_none: bool) -> None:
    """One layer whose gradient is that large: its second backward meets what zeroing left."""
    model = nn.Linear(WIDTH, megabytes * MEBI // (4 * WIDTH), bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=to_none)
        model(torch.ones(1, WIDTH)).mean().backward()
        optimizer.step()


def batches(rows: int, *, parts: int) -> None:
    """Sixteen layers, whose outputs wait for backward."""
    layers = [one for _ in range(16) for one in (nn.Linear(256, 256), nn.ReLU())]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        for _ in range(parts):
            (model(torch.ones(rows // parts, 256)).mean() / parts).backward()
        optimizer.step()


ROWS = {
    "Python and torch alone": lambda chosen: nothing(0),
    "zero_grad(), which sets None": lambda chosen: zeroing(chosen.megabytes, to_none=True),
    "zero_grad(set_to_none=False)": lambda chosen: zeroing(chosen.megabytes, to_none=False),
    "one batch": lambda chosen: batches(chosen.rows, parts=1),
    "the same rows in 8 micro-batches": lambda chosen: batches(chosen.rows, parts=8),
    "in 64 micro-batches": lambda chosen: batches(chosen.rows, parts=64),
}


def measured(name: str, chosen: argparse.Namespace) -> int:
    """The peak in MiB, from a fresh process."""
    words = [sys.executable, "-m", "bench.memory", "--row", name]
    words += ["--megabytes", str(chosen.megabytes), "--rows", str(chosen.rows)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    return int(done.stdout) // 1024


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=192, help="size of the gradient")
    parser.add_argument("--rows", type=int, default=8192, help="rows of the big batch")
    parser.add_argument("--row", choices=ROWS, help="run one row in this process")
    chosen = parser.parse_args()
    if chosen.row:
        ROWS[chosen.row](chosen)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return 0
    print(f"a gradient of {chosen.megabytes} MiB; a batch of {chosen.rows} rows, 16 layers of 256")
    for name in ROWS:
        print(f"{name:34}{measured(name, chosen):6} MiB at the peak")
    return 0


if __name__ == "__main__":
    sys.exit(main())
