"""Other people's loops under watch, as they are: silent, and named where zero_grad is taken out."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "examples"
PEERS = {"with_accelerate": "accelerate", "with_ignite": "ignite", "with_fabric": "lightning"}


def run(script: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", str(script)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=script.parent
    )


@pytest.fixture(params=PEERS)
def example(request: pytest.FixtureRequest) -> Path:
    pytest.importorskip(PEERS[request.param])
    return FOLDER / f"{request.param}.py"


def test_the_example_is_silent(example: Path) -> None:
    done = run(example)

    assert done.stdout == "nothing found\n", done.stderr


def test_without_its_zero_grad_it_is_named_at_the_line(example: Path, tmp_path: Path) -> None:
    lines = [line for line in example.read_text().splitlines() if "zero_grad" not in line]
    script = tmp_path / "loop.py"
    script.write_text("\n".join(lines))
    step = next(number for number, line in enumerate(lines, 1) if "optimizer.step()" in line)

    done = run(script)

    assert done.returncode == 1
    *_, told, account, remedy = done.stderr.splitlines()
    assert f"loop.py:{step}:" in told
    assert "GK101 stale-gradient" in told
    assert account.startswith("   account `optimizer`")
    assert remedy.startswith("   remedy: optimizer.zero_grad()")
