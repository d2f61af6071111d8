"""Written by the real SummaryWriter, read back by TensorBoard itself."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradkeeper import Engine, watch
from gradkeeper.integrations.tensorboard import Scalars, add_findings

pytestmark = pytest.mark.filterwarnings("ignore")


def writer_to(folder: Path) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def curve(folder: Path, name: str) -> dict[int, float]:
    return {one.step: one.value for one in read(folder).Scalars(name)}


def test_each_window_becomes_a_point_of_each_curve(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    told = []
    with writer_to(tmp_path) as writer:
        engine = Engine(model, optimizer, scheduler=scheduler, progress=False, log=Scalars(writer))
        for window in engine.windows(torch.randn(6, 8, 4), size=2):
            with window:
                for x in window:
                    window.backward(model(x).square().mean())
            told.append(window)

    losses = {window.step: window.loss for window in told}
    norms = {window.step: window.grad_norm for window in told}
    assert curve(tmp_path, "train/loss") == pytest.approx(losses)
    assert curve(tmp_path, "train/grad_norm") == pytest.approx(norms)
    assert curve(tmp_path, "train/stepped") == {1: 1, 2: 1, 3: 1}
    rates = curve(tmp_path, "train/lr")
    assert rates[2] / rates[1] == pytest.approx(0.5)
    assert curve(tmp_path, "train/weight") == {1: 2, 2: 2, 3: 2}


def test_owners_have_curves_of_their_own(tmp_path: Path) -> None:
    models = {"G": nn.Linear(4, 4), "D": nn.Linear(4, 1)}
    optimizers = {name: torch.optim.SGD(one.parameters(), lr=0.1) for name, one in models.items()}
    with writer_to(tmp_path) as writer:
        engine = Engine(models, optimizers, progress=False, log=Scalars(writer, prefix=""))
        with engine.window(owner="D") as window:
            window.backward(models["D"](torch.randn(8, 4)).mean())

    assert len(curve(tmp_path, "D/loss")) == 1
    assert "G/loss" not in read(tmp_path).Tags()["scalars"]


def test_findings_are_text_and_a_number(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(on_finding="record") as watched:
        for x in torch.randn(6, 8, 4):
            model(x).square().mean().backward()
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with writer_to(tmp_path) as writer:
        add_findings(writer, watched, step=6)

    [text] = read(tmp_path).Tensors("gradkeeper/findings/text_summary")
    told = text.tensor_proto.string_val[0]
    assert b"GK101 stale-gradient" in told
    assert b"GK304 misplaced-clip" in told
    assert curve(tmp_path, "gradkeeper/findings") == {6: 2}


def test_scalars_are_given_a_writer() -> None:
    with pytest.raises(TypeError, match="Scalars takes a SummaryWriter, not None"):
        Scalars(None)
