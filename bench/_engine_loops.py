"""The hand-written loops, and the engine's. Each tells a clock when a window is done."""

import time
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import AdamW

from bench._engine_problems import Problem
from gradkeeper.engine import Engine

CLIP = 1.0
RATE = 1e-3


class Clock:
    """CPU time per micro-step, from the end of the second window to that of the last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ticks: list[float] = []
        self.logged: list[float] = []

    def tick(self) -> None:
        self._ticks.append(time.process_time())

    @property
    def per_step(self) -> float:
        timed = self._ticks[1:]
        return (timed[-1] - timed[0]) / (len(timed) - 1) / self._size


Loop = Callable[[Problem, int, Clock], None]


def bare(problem: Problem, size: int, clock: Clock) -> None:
    """Batches in memory, no clipping, nothing logged."""
    model = problem.model()
    optimizer = AdamW(model.parameters(), lr=RATE)
    for place, (x, y) in enumerate(list(problem.loader())):
        (problem.loss(model, x, y) / size).backward()
        if (place + 1) % size == 0:
            optimizer.step()
            optimizer.zero_grad()
            clock.tick()


def by_hand(problem: Problem, size: int, clock: Clock) -> None:
    """The same work as the engine's: a DataLoader, clipping, the loss of each window logged."""
    model = problem.model()
    optimizer = AdamW(model.parameters(), lr=RATE)
    total: Any = 0.0
    for place, (x, y) in enumerate(problem.loader()):
        loss = problem.loss(model, x, y) / size
        loss.backward()
        total += loss.detach()
        if (place + 1) % size == 0:
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
            clock.logged.append(float(total))
            total = 0.0
            clock.tick()


def by_engine(problem: Problem, size: int, clock: Clock) -> None:
    model = problem.model()
    optimizer = AdamW(model.parameters(), lr=RATE)
    engine = Engine(model, optimizer, clip_norm=CLIP, progress=False)
    for window in engine.windows(problem.loader(), size=size):
        with window:
            for x, y in window:
                window.backward(problem.loss(model, x, y))
        clock.logged.append(window.loss or 0.0)
        clock.tick()
