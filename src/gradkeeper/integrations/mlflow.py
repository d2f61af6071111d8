"""MLflow: what the engine tells of each window, as metrics of a run.

    from gradkeeper.integrations.mlflow import Scalars

    with mlflow.start_run() as run:
        engine = Engine(model, optimizer, log=Scalars(run))

logs `train/loss`, `train/grad_norm`, `train/lr`, `train/weight` and `train/stepped` (1 or 0) by
step, one call for each window; with several owners `train/D/loss` and so on. They go to the
tracking URI that holds when `Scalars` is made, a folder or a server, whichever run is active later.
"""

import time
from collections.abc import Mapping
from typing import Any


class Scalars:
    """For `Engine(log=...)`."""

    def __init__(self, run: Any, *, prefix: str = "train/") -> None:
        from mlflow import MlflowClient

        known = getattr(getattr(run, "info", None), "run_id", None)
        if not isinstance(known, str):
            raise TypeError(f"Scalars takes a run, as mlflow.start_run() gives it, not {run!r}")
        self._client = MlflowClient()
        self._run = known
        self._prefix = prefix

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(self._prefix + name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)
