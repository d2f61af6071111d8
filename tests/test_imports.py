"""torch stays out of sys.modules until a command needs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from gradkeeper.extras import INSTALL_TORCH
from gradkeeper.model import Site, Tape
from gradkeeper.model.events import Close

PROBE = """
import sys
{code}
heavy = [name for name in ("torch", "numpy", "safetensors", "tqdm") if name in sys.modules]
sys.exit(f"imported: {{heavy}}" if heavy else 0)
"""
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from gradkeeper import Engine
"""
RUN = "from gradkeeper.cli import main\nmain({arguments!r})"


def probe(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROBE.format(code=code)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def tape(tmp_path: Path) -> str:
    path = tmp_path / "run.tape"
    tape = Tape()
    tape.record(Close(site=Site("train.py", 1)))
    tape.write(path)
    return str(path)


def test_importing_the_package_leaves_torch_out() -> None:
    done = probe("import gradkeeper")

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [["rules"], ["explain", "GK101"], ["replay", "TAPE"]])
def test_a_command_leaves_torch_out(command: list[str], tape: str) -> None:
    arguments = [tape if word == "TAPE" else word for word in command]

    done = probe(RUN.format(arguments=arguments))

    assert done.returncode == 0, done.stderr


def test_what_trains_says_how_to_get_torch_where_it_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False
    )

    last = done.stderr.strip().splitlines()[-1]
    assert last == f"ModuleNotFoundError: gradkeeper.Engine needs torch: {INSTALL_TORCH}"


def test_the_probe_notices_an_import_of_torch() -> None:
    done = probe("import gradkeeper\nimport torch")

    assert done.returncode == 1
    assert "torch" in done.stderr
