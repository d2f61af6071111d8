"""What `Engine(deterministic=True)` costs: CPU time per micro-step, on the CPU.

Usage: scripts/bench deterministic [--rounds 15]

Rounds are interleaved, in turning order, in one thread. Ratios are medians over rounds against the
same engine without the option, which runs twice per round: the second ratio (A/A) is what noise
looks like. Nothing is said of GPUs, where other kernels are chosen and the cost is another.
"""

import argparse

import torch
from torch.optim import AdamW

from bench._engine_loops import CLIP, RATE, Clock, Loop
from bench._engine_problems import PROBLEMS, Problem
from bench.engine import AGAIN, HAND, column, rounds
from gradkeeper.engine import Engine

SIZE = 4
TITLES = {
    HAND: "without",
    AGAIN: "without (A/A)",
    "deterministic": "`deterministic=True`",
}


def loop_with(*, deterministic: bool) -> Loop:
    def loop(problem: Problem, size: int, clock: Clock) -> None:
        torch.use_deterministic_algorithms(False)
        model = problem.model()
        optimizer = AdamW(model.parameters(), lr=RATE)
        engine = Engine(
            model, optimizer, clip_norm=CLIP, progress=False, deterministic=deterministic
        )
        for window in engine.windows(problem.loader(), size=size):
            with window:
                for x, y in window:
                    window.backward(problem.loss(model, x, y))
            clock.tick()

    return loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()

    torch.set_num_threads(1)
    loops = {
        HAND: loop_with(deterministic=False),
        AGAIN: loop_with(deterministic=False),
        "deterministic": loop_with(deterministic=True),
    }
    columns = {}
    for build in PROBLEMS.values():
        problem = build()
        columns[problem.name] = column(list(rounds(problem, SIZE, loops, options.rounds)))
    print("|", " | ".join(["a micro-step", *columns]), "|")
    print("|---" * (1 + len(columns)) + "|")
    for name, title in TITLES.items():
        print("|", " | ".join([title, *(cells[name] for cells in columns.values())]), "|")


if __name__ == "__main__":
    main()
