"""The peak of resident memory of one loop, run in a process of its own."""

import resource

import torch
from torch import nn

from bench._engine_loops import Clock, Loop, by_engine, by_hand
from bench._engine_problems import Problem

LOOPS: dict[str, Loop] = {"by hand": by_hand, "Engine": by_engine}


def wide() -> Problem:
    def build() -> nn.Module:
        return nn.Sequential(*(nn.Linear(1000, 1000) for _ in range(12)), nn.Linear(1000, 10))

    return Problem("wide MLP", build, torch.randn(1600, 1000), torch.randint(0, 10, (1600,)), 100)


def peak_of(name: str) -> int:
    """In KiB, as the kernel counts them on Linux."""
    LOOPS[name](wide(), 4, Clock(4))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
