"""What other programs call: the hook, by the real pre-commit.

Its own install needs a network, and was tried by hand (`pre-commit try-repo`).
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / ".pre-commit-hooks.yaml"

STALE = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
"""


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program of this environment, as if it were activated."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PRE_COMMIT_HOME": str(folder / ".home")}
    return subprocess.run(
        words, capture_output=True, text=True, timeout=120, check=False, cwd=folder, env=environment
    )


def notebook(code: str) -> str:
    cell = {"cell_type": "code", "source": code, "metadata": {}, "outputs": []}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With our hook in its configuration, as it would be if pre-commit had installed us."""
    [hook] = yaml.safe_load(HOOKS.read_text())
    local = {"repo": "local", "hooks": [{**hook, "language": "system"}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [local]}))
    run(["git", "init", "-q"], tmp_path)
    return tmp_path


def commit_check(repository: Path) -> subprocess.CompletedProcess[str]:
    run(["git", "add", "-A"], repository)
    return run(["pre-commit", "run", "--all-files"], repository)


def test_the_manifest_is_one() -> None:
    done = run(["pre-commit", "validate-manifest", str(HOOKS)], ROOT)

    assert done.returncode == 0, done.stdout


def test_a_manifest_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text("- id: gradkeeper\n")

    assert run(["pre-commit", "validate-manifest", "hooks.yaml"], tmp_path).returncode == 1


@pytest.mark.parametrize(("name", "write"), [("train.py", str), ("train.ipynb", notebook)])
def test_a_commit_with_a_fault_is_held_up(repository: Path, name: str, write: Any) -> None:
    (repository / name).write_text(write(STALE))

    done = commit_check(repository)

    assert done.returncode == 1
    assert "GK101 stale-gradient" in done.stdout


def test_other_files_are_none_of_its_business(repository: Path) -> None:
    (repository / "train.txt").write_text(STALE)

    done = commit_check(repository)

    assert done.returncode == 0
    assert "no files to check" in done.stdout


def test_a_clean_commit_passes(repository: Path) -> None:
    mended = STALE.replace("    model(x)", "    optimizer.zero_grad()\n    model(x)")
    (repository / "train.py").write_text(mended)

    done = commit_check(repository)

    assert done.returncode == 0, done.stdout
    assert "Passed" in done.stdout
