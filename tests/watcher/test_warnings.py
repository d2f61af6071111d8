"""A warning of torch's own names the user's line, with and without a watch."""

import subprocess
import sys
import warnings
from pathlib import Path

from gradkeeper.watcher import Watch

SCRIPT = """\
import warnings

import torch

warnings.simplefilter("always")
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
model.register_backward_hook(lambda *_: None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
parameters = iter(model.parameters())
list(parameters)
for x in torch.randn(16, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    scheduler.step()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    scheduler.step(3)
    torch.autograd.backward(model(x).sum(), grad_variables=torch.ones(()))
scaler = torch.amp.GradScaler("cuda")
"""


def told(folder: Path, *words: str) -> list[str]:
    """The warnings of the script, each with its file and line."""
    job = subprocess.run(
        [sys.executable, *words, "train.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [line for line in job.stderr.splitlines() if "Warning: " in line]


def test_the_warnings_of_a_script_are_those_that_it_gives_without_us(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)

    plain = told(tmp_path)
    watched = told(tmp_path, "-m", "gradkeeper", "run", "--exit-zero")

    lines = {
        line.split(":")[1] for line in plain if "/train.py:" in line or line[:9] == "train.py:"
    }
    assert {"15", "17", "18", "19"} <= lines
    assert [line.removeprefix(str(tmp_path) + "/") for line in watched] == [
        line.removeprefix(str(tmp_path) + "/") for line in plain
    ]


def test_a_warning_of_the_user_s_keeps_its_level() -> None:
    def helper() -> None:
        warnings.warn("mine", stacklevel=2)

    def caught() -> warnings.WarningMessage:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            helper()
        return seen[0]

    plain = caught()
    with Watch(), Watch():
        watched = caught()

    assert (watched.filename, watched.lineno) == (plain.filename, plain.lineno)
