"""Frameworks that own parts of the loop: trainings that are right are silent, and a fault that is
planted in one is named at the user's line, by the watcher and by the linter where it can see it.
"""

import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from gradkeeper.cli import main
from tests.watcher.forked import watched

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FOLDER = Path(__file__).parents[1] / "cases" / "frameworks" / "ok"
RIGHT = sorted(path.stem for path in FOLDER.glob("*.py"))
MODULES = {"fabric": "lightning"}
"""Where a framework is not imported by its name."""


@dataclass(frozen=True)
class Planted:
    """A fault made of a right script by writing `new` for `old`."""

    script: str
    old: str
    new: str
    rule: str
    line: str
    """A word of the line that is at fault, in what `new` makes of the script."""
    static: bool = True


PLANTED = {
    "accelerate, not zeroed": Planted(
        "accelerate_accumulate", "            optimizer.zero_grad()\n", "",
        "GK101", "optimizer.step()",
    ),
    "accelerate, zeroed before the step": Planted(
        "accelerate_accumulate", "            optimizer.step()\n",
        "            optimizer.zero_grad()  # here\n            optimizer.step()\n",
        "GK102", "# here",
    ),
    "accelerate, clipped each time": Planted(
        "accelerate_accumulate", "if accelerator.sync_gradients:", "if True:",
        "GK304", "clip_grad_norm_",
    ),
    "accelerate, divided by hand as well": Planted(
        "accelerate_accumulate", "accelerator.backward(loss)", "accelerator.backward(loss / 4)",
        "GK207", "accelerator.backward",
    ),
    "accelerate, a tail divided by too much": Planted(
        "accelerate_accumulate", "torch.randn(64, 4)", "torch.randn(56, 4)",
        "GK202", "optimizer.step()", static=False,
    ),
    "accelerate, loaded over what waits": Planted(
        "accelerate_state", "        accelerator.load_state(folder)\n",
        "        accelerator.backward(nn.functional.mse_loss(model(inputs), targets))\n"
        "        accelerator.load_state(folder)\n",
        "GK403", "            optimizer.step()\n            optimizer.zero_grad()\n\n",
    ),
    "fabric, not divided": Planted(
        "fabric_accumulate", "loss / 4", "loss", "GK201", "optimizer.step()",
    ),
    "fabric, not zeroed": Planted(
        "fabric_accumulate", "                optimizer.zero_grad()\n", "",
        "GK101", "optimizer.step()",
    ),
    "ignite, not divided": Planted(
        "ignite_manual", " / accumulation_steps\n", "\n", "GK201", "optimizer.step()",
    ),
    "ignite, zeroed each time": Planted(
        "ignite_manual", "    model.train()\n",
        "    model.train()\n    optimizer.zero_grad()  # here\n",
        "GK102", "# here",
    ),
    "lightning, not zeroed by its own hook": Planted(
        "lightning_automatic", "    def configure_optimizers",
        "    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):\n        pass\n\n"
        "    def configure_optimizers",
        "GK101", "trainer.fit", static=False,
    ),
    "lightning, wiped by a hook": Planted(
        "lightning_automatic", "    def configure_optimizers",
        "    def on_before_optimizer_step(self, optimizer):\n        self.zero_grad()\n\n"
        "    def configure_optimizers",
        "GK103", "trainer.fit", static=False,
    ),
    "lightning, a head of nobody's": Planted(
        "lightning_automatic", "    def configure_optimizers",
        "    def on_train_start(self):\n        self.net[2] = nn.Linear(8, 1)\n\n"
        "    def configure_optimizers",
        "GK105", "trainer.fit", static=False,
    ),
    "lightning, a generator not zeroed": Planted(
        "lightning_gan", "        optimizer_g.zero_grad()\n", "", "GK101", "optimizer_g.step()",
    ),
    "lightning, a generator zeroed too early": Planted(
        "lightning_gan", "        optimizer_g.step()\n",
        "        optimizer_g.zero_grad()  # here\n        optimizer_g.step()\n",
        "GK102", "# here",
    ),
    "lightning, not divided": Planted(
        "lightning_manual", " / N\n", "\n", "GK201", "opt.step()",
    ),
    "lightning, clipped each time": Planted(
        "lightning_manual", "        if (batch_idx + 1) % N == 0:\n            self.clip",
        "        self.clip_gradients(opt, gradient_clip_val=0.5)  # here\n"
        "        if (batch_idx + 1) % N == 0:\n            self.clip",
        "GK304", "# here",
    ),
    "transformers, zeroed in the loss": Planted(
        "transformers_compute_loss", "        outputs = model(**inputs)\n",
        "        model.zero_grad()\n        outputs = model(**inputs)\n",
        "GK102", "model.zero_grad()", static=False,
    ),
    "transformers, not divided": Planted(
        "transformers_training_step", " / self.current_gradient_accumulation_steps", "",
        "GK201", "Plain(model", static=False,
    ),
    "transformers, a loss that nobody divides": Planted(
        "transformers_compute_loss", "    loss_is_scaled_for_ga = False\n\n", "",
        "GK201", "Weighted(model", static=False,
    ),
    "transformers, an optimizer of another model": Planted(
        "transformers_compute_loss", "train_dataset=rows).train()",
        "train_dataset=rows, optimizers=(torch.optim.AdamW(\n"
        "    BertForSequenceClassification(config).parameters()), None)).train()",
        "GK103", "train()", static=False,
    ),
}  # fmt: skip


def needs(script: str) -> None:
    framework = script.split("_")[0]
    pytest.importorskip(MODULES.get(framework, framework))


def checked(script: Path) -> str:
    with redirect_stdout(io.StringIO()) as told:
        main(["check", str(script)])
    return told.getvalue()


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_training_is_silent(name: str, tmp_path: Path) -> None:
    needs(name)

    seen = watched(FOLDER / f"{name}.py", tmp_path)

    assert seen.steps > 3
    assert seen.found == []
    assert "nothing found" in checked(FOLDER / f"{name}.py")


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_is_named_at_the_user_s_line(name: str, tmp_path: Path) -> None:
    fault = PLANTED[name]
    needs(fault.script)
    right = (FOLDER / f"{fault.script}.py").read_text()
    assert fault.old in right
    script = tmp_path / "train.py"
    script.write_text(right.replace(fault.old, fault.new))
    wrong = script.read_text()
    line = wrong[: wrong.index(fault.line)].count("\n") + 1

    assert watched(script, tmp_path).found == [(fault.rule, line)]
    assert (f"train.py:{line}:" in checked(script)) is fault.static
