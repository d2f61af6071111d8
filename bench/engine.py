"""What the engine costs: CPU time per micro-step, beside hand-written loops and frameworks.

Usage: scripts/bench engine [--rounds 15] [--problems tiny deep transformer] [--sizes 1 4]

Rounds are interleaved: in each one every loop runs once, in turning order, so that a slow minute
of the machine is everybody's. Ratios are medians over rounds, against the loop written by hand to
do the same work (DataLoader, clipping, loss logged per window). That loop runs twice per round:
the second ratio (A/A) is what noise looks like. Frameworks are measured where they are installed
(the `peers` extra).
"""

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable

import torch

from bench._engine_loops import Clock, Loop, bare, by_engine, by_hand
from bench._engine_memory import LOOPS, peak_of
from bench._engine_peers import PEERS, quieten
from bench._engine_problems import PROBLEMS, Problem

HAND = "by hand"
AGAIN = "by hand (A/A)"
MODULES = {
    "Fabric": "lightning",
    "Ignite": "ignite",
    "Accelerate": "accelerate",
    "Lightning": "lightning",
    "transformers.Trainer": "transformers",
}


def contestants() -> dict[str, Loop]:
    ours: dict[str, Loop] = {HAND: by_hand, "Engine": by_engine, AGAIN: by_hand, "bare": bare}
    present = {name for name, module in MODULES.items() if importlib.util.find_spec(module)}
    for name in sorted(MODULES.keys() - present):
        print(f"not installed, left out: {name}", file=sys.stderr)
    return ours | {name: loop for name, loop in PEERS.items() if name in present}


def rounds(
    problem: Problem, size: int, loops: dict[str, Loop], count: int
) -> Iterable[dict[str, float]]:
    names = list(loops)
    for turn in range(count + 1):
        times = {}
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            clock = Clock(size)
            loops[name](problem, size, clock)
            times[name] = clock.per_step
        if turn:  # the first round warms up
            yield {name: times[name] for name in names}


def column(measured: list[dict[str, float]]) -> dict[str, str]:
    """By loop: the median ratio, and where the middle half of the rounds lies."""
    cells = {}
    for name in measured[0]:
        ratios = sorted(times[name] / times[HAND] for times in measured)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        cells[name] = f"{statistics.median(ratios):.3f} ({low:.2f} to {high:.2f})"
    cost = statistics.median(times[HAND] for times in measured) * 1e6
    return cells | {HAND: f"{cost:.0f} us"}


def table(columns: dict[str, dict[str, str]]) -> None:
    print("|", " | ".join(["a micro-step", *columns]), "|")
    print("|---" * (1 + len(columns)) + "|")
    for name in next(iter(columns.values())):
        print("|", " | ".join([name, *(cells[name] for cells in columns.values())]), "|")


def memory() -> None:
    """Each loop in a process of its own: the peak of resident memory."""
    print("\npeak memory, 48 MB of weights, windows of 4, AdamW")
    for name in LOOPS:
        command = [sys.executable, "-m", "bench.engine", "--peak", name]
        peaks = [json.loads(subprocess.check_output(command)) for _ in range(3)]
        print(f"  {name:22} {statistics.median(peaks) / 1024:9.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--memory", action="store_true", help="measure memory only")
    parser.add_argument("--peak", choices=list(LOOPS), help=argparse.SUPPRESS)
    options = parser.parse_args()

    torch.set_num_threads(1)
    if options.peak:
        print(peak_of(options.peak))
        return
    if not options.memory:
        quieten()
        loops = contestants()
        columns = {}
        for name in options.problems:
            problem = PROBLEMS[name]()
            for size in options.sizes:
                measured = list(rounds(problem, size, loops, options.rounds))
                columns[f"{problem.name}, windows of {size}"] = column(measured)
        table(columns)
    memory()


if __name__ == "__main__":
    main()
