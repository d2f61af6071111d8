"""Losses and gradient norms at each step, for those who ask: it reads values, which takes time.

The loss of a window is the sum of what its backwards were called on, a scaler's factor aside. A
norm is of what the step spends: unscaled, clipped, and on a sharded model this rank's part.
"""

import math
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from gradkeeper.model import Event, Site
from gradkeeper.model.events import Measure
from gradkeeper.torch_private import held_here
from gradkeeper.watcher.gradients import Cohort

MOST_WAITING = 1024
MeasuredLoss = tuple[int, torch.Tensor, float]
"""The backward's number, its loss, and the scaler's factor in it."""


class Measures:
    def __init__(
        self, path: Callable[[torch.Tensor], str | None], record: Callable[[Event], None]
    ) -> None:
        self._path = path
        self._record = record
        self._waiting: weakref.WeakKeyDictionary[Cohort, list[MeasuredLoss]] = (
            weakref.WeakKeyDictionary()
        )
        self._loss: MeasuredLoss | None = None
        self._number = 0
        self._steps: Counter[str] = Counter()
        self._scaled: tuple[Callable[[], torch.Tensor | None], float] = (lambda: None, 1.0)

    def scaled(self, output: torch.Tensor, scaler: Any) -> None:
        self._scaled = (weakref.ref(output), float(scaler.get_scale()))

    def begins(self, tensors: list[torch.Tensor]) -> None:
        """A backward is called on these."""
        self._number += 1
        self._loss = None
        if len(tensors) == 1 and tensors[0].numel() == 1:
            scaled, factor = self._scaled
            known = factor if scaled() is tensors[0] else 1.0
            self._loss = (self._number, held_here(tensors[0]).detach(), known)

    def credited(self, cohorts: list[Cohort]) -> None:
        for cohort in cohorts:
            waiting = self._waiting.setdefault(cohort, [])
            if self._loss is not None:
                waiting.append(self._loss)
            del waiting[:-MOST_WAITING]

    def step(self, optimizer: str, cohorts: list[Cohort], site: Site) -> None:
        self._steps[optimizer] += 1
        layers = self._layers(cohorts)
        self._record(
            Measure(
                site=site,
                optimizer=optimizer,
                step=self._steps[optimizer],
                loss=self._loss_of(cohorts),
                norm=math.hypot(*layers.values()) if layers else None,
                unclipped=_unclipped(cohorts),
                layers=tuple(layers),
                norms=tuple(layers.values()),
            )
        )

    def _loss_of(self, cohorts: list[Cohort]) -> float | None:
        """The sum over the backwards that wait; None where one of them was not seen."""
        spent: dict[int, float] = {}
        for cohort in cohorts:
            waiting = self._waiting.get(cohort, [])
            if len(waiting) < cohort.fresh:
                return None
            for number, loss, factor in waiting[len(waiting) - cohort.fresh :]:
                spent[number] = float(loss) / factor
        return math.fsum(spent.values()) if spent else None

    def _layers(self, cohorts: list[Cohort]) -> dict[str, float]:
        parts: dict[str, list[torch.Tensor]] = {}
        for mark in (mark for cohort in cohorts for mark in cohort.marks):
            parameter, grad = mark.parameter(), mark.grad_now()
            if parameter is not None and grad is not None:
                parts.setdefault(self._layer(parameter), []).append(_norm(grad))
        # One wait for the device, however many layers there are.
        norms = [torch.linalg.vector_norm(torch.stack(some)) for some in parts.values()]
        if not norms:
            return {}
        return dict(zip(parts, torch.stack(norms).tolist(), strict=True))

    def _layer(self, parameter: torch.Tensor) -> str:
        """The module it lies in: `model.0` for `model.0.weight`."""
        path = self._path(parameter)
        if path is None:
            return f"tensor{tuple(parameter.shape)}"
        return path.rpartition(".")[0] or path


def _norm(grad: torch.Tensor) -> torch.Tensor:
    if grad.is_sparse:
        grad = grad.coalesce().values()
    part = held_here(grad).detach()
    norm: torch.Tensor = torch.linalg.vector_norm(part, dtype=torch.float32)
    return norm


def _unclipped(cohorts: list[Cohort]) -> float | None:
    norms = [
        float(held_here(cohort.norms[-1])) for cohort in cohorts if cohort.fresh and cohort.norms
    ]
    return max(norms, default=None)
