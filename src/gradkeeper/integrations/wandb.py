"""Weights & Biases: what the engine tells of each window, as metrics of a run.

    from gradkeeper.integrations.wandb import Scalars

    run = wandb.init(project="...")          # or mode="offline", and `wandb sync` later
    engine = Engine(model, optimizer, log=Scalars(run))

logs `train/loss`, `train/grad_norm`, `train/lr`, `train/weight` and `train/stepped` (1 or 0) over
`train/step`; with several owners `train/D/loss` and so on. wandb's own step counter is left to your
own calls of `run.log`, and it drops what is logged for a step it has passed: a run that was killed
and resumes a few steps earlier would lose them. Over `train/step` they are drawn.
"""

from collections.abc import Mapping
from typing import Any


class Scalars:
    """For `Engine(log=...)`."""

    def __init__(self, run: Any, *, prefix: str = "train/") -> None:
        if not callable(getattr(run, "define_metric", None)):
            raise TypeError(f"Scalars takes a run, as wandb.init() gives it, not {run!r}")
        self._run = run
        self._prefix = prefix
        self._step = f"{prefix}step"
        run.define_metric(self._step)
        run.define_metric(f"{prefix}*", step_metric=self._step)

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        named = {self._prefix + name: value for name, value in values.items()}
        self._run.log({**named, self._step: step})
