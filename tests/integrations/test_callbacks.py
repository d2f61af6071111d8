"""The callbacks in the real trainers."""

import subprocess
import sys
from pathlib import Path

import pytest

from gradkeeper.model.tape import read_file

pytestmark = pytest.mark.slow

LIGHTNING = """
import torch
from LIGHTNING import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset
from gradkeeper.integrations.lightning import GradkeeperCallback

class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        loss = self.net(batch[0]).square().mean()
        self.manual_backward(loss)
        optimizer.step()
        FAULT

    def validation_step(self, batch, index):
        self.log("loss", self.net(batch[0]).square().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)

callback = GradkeeperCallback(OPTIONS)
trainer = Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, callbacks=[callback],
)
before = torch.Tensor.backward
loader = DataLoader(TensorDataset(torch.randn(56, 4)), batch_size=8)
try:
    trainer.fit(Module(), loader)
    trainer.validate(Module(), loader, verbose=False)
except BaseException as error:
    print("raised", type(error).__name__)
assert torch.Tensor.backward is before
print([f"{one.rule}:{one.site.line}" for one in callback.findings])
"""

TRAINER = """
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from gradkeeper.integrations.transformers import GradkeeperCallback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def forward(self, x, labels=None):
        y = self.net(x)
        return {"loss": torch.nn.functional.mse_loss(y, labels), "logits": y}

class Wipes(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        model.zero_grad()

callback = GradkeeperCallback(OPTIONS)
arguments = TrainingArguments(
    output_dir="out", num_train_epochs=4, per_device_train_batch_size=8, use_cpu=True,
    gradient_accumulation_steps=2, report_to=[], save_strategy="no", logging_strategy="no",
    disable_tqdm=True,
)
rows = [{"x": x, "labels": x[:1]} for x in torch.randn(64, 4)]
callbacks = [callback, *EXTRA]
trainer = Trainer(model=Model(), args=arguments, train_dataset=rows, callbacks=callbacks)
before = torch.Tensor.backward
trainer.train()
assert torch.Tensor.backward is before
print([f"{one.rule}:{one.site.line}" for one in callback.findings])
"""


def run(folder: Path, code: str) -> tuple[str, str, list[str]]:
    """Standard output, standard error, and the lines of the script."""
    script = folder / "train.py"
    script.write_text(code)
    command = [sys.executable, "-W", "ignore", "train.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr, code.splitlines()


def line(lines: list[str], words: str) -> int:
    return next(number for number, one in enumerate(lines, 1) if words in one)


def lightning(name: str, *, fault: str = "pass", options: str = "") -> str:
    code = LIGHTNING.replace("LIGHTNING", name).replace("OPTIONS", options)
    return code.replace("FAULT", fault)


@pytest.mark.parametrize("name", ["lightning", "pytorch_lightning"])
class TestLightning:
    @pytest.fixture(autouse=True)
    def there(self, name: str) -> None:
        pytest.importorskip(name)

    def test_a_correct_fit_is_silent(self, name: str, tmp_path: Path) -> None:
        out, err, _ = run(tmp_path, lightning(name, options="tape='run.tape', report='page.html'"))

        assert out == "[]\n"
        assert "GK" not in err
        steps = [one for one in read_file(tmp_path / "run.tape") if type(one).__name__ == "Step"]
        assert steps
        assert "Module" in (tmp_path / "page.html").read_text()

    def test_a_fault_is_named_at_the_user_s_line(self, name: str, tmp_path: Path) -> None:
        """Also after a validation, which is no training."""
        code = lightning(name).replace("        optimizer.zero_grad()\n", "")

        out, err, lines = run(tmp_path, code)

        at = line(lines, "optimizer.step()")
        assert out == f"['GK101:{at}']\n"
        assert f"train.py:{at}:9  GK101 stale-gradient" in err


def test_an_exception_closes_the_books(tmp_path: Path) -> None:
    pytest.importorskip("lightning")

    out, _, _ = run(tmp_path, lightning("lightning", fault="raise MemoryError"))

    assert out == "raised MemoryError\n[]\n"


def test_lightning_raises_at_the_line(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    code = lightning("lightning", options="on_finding='raise'")

    out, _, lines = run(tmp_path, code.replace("        optimizer.zero_grad()\n", ""))

    at = line(lines, "optimizer.step()")
    assert out == f"raised FindingError\n['GK101:{at}']\n"


def transformers(*, options: str = "", extra: str = "[]") -> str:
    return TRAINER.replace("OPTIONS", options).replace("EXTRA", extra)


def test_a_correct_trainer_is_silent(tmp_path: Path) -> None:
    pytest.importorskip("transformers")

    out, err, _ = run(tmp_path, transformers(options="tape='run.tape'"))

    assert out.splitlines()[-1] == "[]"
    assert "GK" not in err
    assert any(type(one).__name__ == "Step" for one in read_file(tmp_path / "run.tape"))


def test_a_training_that_dies_is_closed_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    code = transformers(options="on_finding='raise'", extra="[Wipes()]").replace(
        "trainer.train()",
        "try:\n    trainer.train()\nexcept Exception as error:\n"
        "    print(type(error).__name__)\n    callback.close()",
    )

    out, _, lines = run(tmp_path, code)

    at = line(lines, "model.zero_grad()")
    assert out.splitlines() == ["FindingError", f"['GK102:{at}']"]


def test_a_callback_that_wipes_gradients_is_named(tmp_path: Path) -> None:
    pytest.importorskip("transformers")

    out, err, lines = run(tmp_path, transformers(extra="[Wipes()]"))

    at = line(lines, "model.zero_grad()")
    assert out.splitlines()[-1] == f"['GK102:{at}']"
    assert f"train.py:{at}:9  GK102 discarded-gradient" in err


def test_ignored_rules_are_not_told(tmp_path: Path) -> None:
    pytest.importorskip("transformers")

    out, _, _ = run(tmp_path, transformers(options="ignore='GK1'", extra="[Wipes()]"))

    assert out.splitlines()[-1] == "[]"
