"""A training that another framework began and saved by itself goes on under the engine: its
weights, its optimizer and its scheduler."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from gradkeeper import Engine
from gradkeeper.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

STEPS = 3
DATA = torch.randn(STEPS * 2, 4, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> Any:
        return {"loss": self.net(x).square().mean()}


def of(model: nn.Module) -> tuple[AdamW, LambdaLR]:
    optimizer = AdamW(model.parameters(), lr=0.01)
    return optimizer, LambdaLR(optimizer, lambda step: 0.5**step)


def by_lightning(folder: Path) -> tuple[nn.Module, AdamW, Path]:
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net().net
            self.save_hyperparameters({"width": 8})

        def training_step(self, x: torch.Tensor, _: int) -> Any:
            return self.net(x).square().mean()

        def configure_optimizers(self) -> Any:
            optimizer, scheduler = of(self)
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    module = Module()
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        default_root_dir=folder,
    )
    trainer.fit(module, DataLoader(DATA, batch_size=2))  # type: ignore[arg-type]
    trainer.save_checkpoint(folder / "last.ckpt")
    return module, trainer.optimizers[0], folder / "last.ckpt"


def by_accelerate(folder: Path) -> tuple[nn.Module, AdamW, Path]:
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    model = Net()
    optimizer, scheduler = of(model)
    prepared, stepping, ticking = accelerator.prepare(model, optimizer, scheduler)
    for x in DATA.split(2):
        accelerator.backward(prepared(x)["loss"])
        stepping.step()
        ticking.step()
        stepping.zero_grad()
    accelerator.save_state(folder / "state")
    return model, optimizer, folder / "state"


def by_transformers(folder: Path) -> tuple[nn.Module, AdamW, Path]:
    transformers = pytest.importorskip("transformers")
    model = Net()
    optimizers = of(model)
    arguments = transformers.TrainingArguments(
        folder,
        per_device_train_batch_size=2,
        num_train_epochs=1,
        save_steps=STEPS,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    items = [{"x": x} for x in DATA]
    transformers.Trainer(model, arguments, train_dataset=items, optimizers=optimizers).train()
    return model, optimizers[0], folder / f"checkpoint-{STEPS}"


@pytest.mark.parametrize("trained_by", [by_lightning, by_accelerate, by_transformers])
def test_a_training_goes_on_from_what_a_framework_saved(
    tmp_path: Path, trained_by: Callable[[Path], tuple[nn.Module, AdamW, Path]]
) -> None:
    theirs, their_optimizer, path = trained_by(tmp_path / "theirs")
    assert main(["checkpoint", "import", str(path), str(tmp_path / "run")]) == 0
    model = Net()
    optimizer, scheduler = of(model)
    engine = Engine(model, optimizer, scheduler=scheduler, checkpoint=tmp_path / "run")

    assert engine.resume()

    assert scheduler.last_epoch == STEPS
    assert optimizer.param_groups[0]["lr"] == their_optimizer.param_groups[0]["lr"]
    for ours, other in zip(model.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(ours, other)
        moments = their_optimizer.state[other]
        assert moments.keys() == optimizer.state[ours].keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(optimizer.state[ours][name], moments[name]) for name in moments)
