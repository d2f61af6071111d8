"""Frameworks that own parts of the loop: their correct trainings are silent, and a fault that is
the user's is named at the user's line."""

from pathlib import Path

import pytest

from tests.watcher.loops import Loop, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]

DATA = """
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(56, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
loader = DataLoader(data, batch_size=8)
"""

ACCELERATE = """
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for epoch in range(5):
    for a, b in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(a), b)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
"""

ACCUMULATE = """
from accelerate import Accelerator

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = DataLoader(data, batch_size=7)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(5):
    for a, b in loader:
        with accelerator.accumulate(model):
            loss = F.mse_loss(model(a), b)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
"""

LIGHTNING = """
import lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = model

    def training_step(self, batch, index):
        return F.mse_loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)

trainer = lightning.Trainer(
    max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0,
)
trainer.fit(Module(), loader)
"""

LIGHTNING_MANUAL = """
import lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = model
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        loss = F.mse_loss(self.net(batch[0]), batch[1])
        self.manual_backward(loss)
        optimizer.step()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)

trainer = lightning.Trainer(
    max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(Module(), loader)
"""

TRAINER = """
from transformers import Trainer, TrainingArguments

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x, labels=None):
        y = self.net(x)
        return {"loss": F.mse_loss(y, labels), "logits": y}

rows = [{"x": a, "labels": b} for a, b in data]
arguments = TrainingArguments(
    output_dir="out", num_train_epochs=4, per_device_train_batch_size=8, use_cpu=True,
    gradient_accumulation_steps=2, report_to=[], save_strategy="no", logging_strategy="no",
    disable_tqdm=True,
)
Trainer(model=Model(), args=arguments, train_dataset=rows).train()
"""

IGNITE = """
from ignite.engine import create_supervised_trainer

optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
trainer = create_supervised_trainer(model, optimizer, F.mse_loss)
trainer.run(loader, max_epochs=4)
"""

CORRECT = {
    "accelerate": ACCELERATE,
    "accelerate with accumulate": ACCUMULATE,
    "lightning": LIGHTNING,
    "lightning by hand": LIGHTNING_MANUAL,
    "transformers": TRAINER,
    "ignite": IGNITE,
}
NEEDS = {
    "accelerate": "accelerate",
    "lightning": "lightning",
    "transformers": "transformers",
    "ignite": "ignite",
}


def train(folder: Path, name: str, code: str) -> Loop:
    pytest.importorskip(NEEDS[name.split()[0]])
    return run(folder, DATA + code)


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_training_is_silent(name: str, tmp_path: Path) -> None:
    loop = train(tmp_path, name, CORRECT[name])

    assert loop.found == []
    assert any(type(one).__name__ == "Step" for one in loop.watch.tape)


@pytest.mark.parametrize("name", ["accelerate", "lightning by hand"])
def test_a_zero_grad_that_is_missing_is_named_at_the_user_s_line(name: str, tmp_path: Path) -> None:
    code = "\n".join(line for line in CORRECT[name].splitlines() if "zero_grad" not in line)

    loop = train(tmp_path, name, code)

    assert loop.found == [f"GK101:{loop.line('optimizer.step()')}"]
