"""Weights & Biases offline and MLflow in a folder, each through its real client and read back."""

import json
import struct
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradkeeper import Engine
from gradkeeper.engine import Window

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

NAMES = {"train/loss", "train/grad_norm", "train/weight", "train/lr", "train/stepped"}


def train(log: Any) -> list[Window]:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = Engine(model, optimizer, progress=False, log=log, on_nonfinite="skip")
    batches = torch.randn(6, 8, 4)
    batches[2] = torch.nan
    told = []
    for window in engine.windows(batches, size=2):
        with window:
            for x in window:
                window.backward(model(x).square().mean())
        told.append(window)
    return told


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    return pytest.importorskip("wandb")


BLOCK, FULL, LAST = 32768, 1, 4


def pieces(data: bytes) -> Iterator[bytes]:
    """LevelDB's log: blocks of records, each behind a checksum, a length and a kind of part."""
    place, so_far = 7, b""
    while place < len(data):
        left = BLOCK - place % BLOCK
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        so_far += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (FULL, LAST):
            yield so_far
            so_far = b""


def records(folder: Path) -> list[Any]:
    """Of the file that `wandb sync` would send; it is whole once wandb's own process has ended."""
    import wandb

    wandb.teardown()
    record = import_module("wandb.proto.wandb_internal_pb2").Record
    [file] = folder.glob("wandb/offline-run-*/run-*.wandb")
    return [record.FromString(piece) for piece in pieces(file.read_bytes())]


def rows(folder: Path) -> list[dict[str, Any]]:
    return [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in row.item}
        for row in (record.history for record in records(folder) if record.HasField("history"))
    ]


def test_wandb_holds_a_row_for_each_window(wandb: Any, tmp_path: Path) -> None:
    from gradkeeper.integrations.wandb import Scalars

    with wandb.init(dir=tmp_path) as run:
        told = train(Scalars(run))

    found = [{k: v for k, v in row.items() if k.startswith("train/")} for row in rows(tmp_path)]
    assert [row["train/step"] for row in found] == [window.step for window in told] == [1, 1, 2]
    assert [row["train/stepped"] for row in found] == [1, 0, 1]
    assert found[0].keys() == NAMES | {"train/step"}
    assert found[0]["train/loss"] == pytest.approx(told[0].loss)
    assert found[2]["train/grad_norm"] == pytest.approx(told[2].grad_norm)


def test_wandb_draws_steps_that_a_resumed_run_takes_again(wandb: Any, tmp_path: Path) -> None:
    from gradkeeper.integrations.wandb import Scalars

    with wandb.init(dir=tmp_path) as run:
        log = Scalars(run)
        for step in (1, 2, 3, 2, 3):
            log(step, {"loss": float(step)})
            run.log({"mine": step})

    steps = [row["train/step"] for row in rows(tmp_path) if "train/loss" in row]
    assert steps == [1, 2, 3, 2, 3]
    metrics = [record.metric for record in records(tmp_path) if record.HasField("metric")]
    assert {metric.glob_name: metric.step_metric for metric in metrics}["train/*"] == "train/step"


def test_wandb_is_given_a_run(wandb: Any) -> None:
    from gradkeeper.integrations.wandb import Scalars

    with pytest.raises(TypeError, match=r"as wandb.init\(\) gives it, not 'my project'"):
        Scalars("my project")


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    # MLflow asks for consent to write into plain files: it would rather have a database.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    return pytest.importorskip("mlflow")


def history(mlflow: Any, run: str, name: str) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for metric in mlflow.MlflowClient().get_metric_history(run, name):
        found.setdefault(metric.step, []).append(metric.value)
    return found


def test_mlflow_holds_a_point_for_each_window(mlflow: Any) -> None:
    from gradkeeper.integrations.mlflow import Scalars

    with mlflow.start_run() as run:
        told = train(Scalars(run))

    name = run.info.run_id
    assert mlflow.get_run(name).data.metrics.keys() == NAMES
    losses = history(mlflow, name, "train/loss")
    assert losses[2] == pytest.approx([told[2].loss])
    assert history(mlflow, name, "train/stepped") == {1: [1, 0], 2: [1]}


def test_mlflow_writes_to_the_run_it_was_given(mlflow: Any) -> None:
    from gradkeeper.integrations.mlflow import Scalars

    with mlflow.start_run() as first:
        log = Scalars(first, prefix="")
    with mlflow.start_run() as second:
        log(1, {"G/loss": 0.5})

    assert history(mlflow, first.info.run_id, "G/loss") == {1: [0.5]}
    assert not mlflow.get_run(second.info.run_id).data.metrics


def test_mlflow_is_given_a_run(mlflow: Any) -> None:
    from gradkeeper.integrations.mlflow import Scalars

    with pytest.raises(TypeError, match=r"as mlflow.start_run\(\) gives it, not None"):
        Scalars(None)
