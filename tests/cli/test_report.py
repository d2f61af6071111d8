"""`--report`: the statement is written, whatever becomes of the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradkeeper.cli import main
from gradkeeper.model import Tape
from tests.report.statement.telling import adopted, window

SCRIPT = """
import sys
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
if len(sys.argv) > 1:
    raise RuntimeError("the disk is full")
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-m", "gradkeeper", "run", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_crashed_run_still_has_its_statement_and_keeps_its_traceback(tmp_path: Path) -> None:
    job = run(tmp_path, "--norms", "--report", "page.html", "train.py", "crash")

    page = (tmp_path / "page.html").read_text()
    assert job.returncode == 1
    assert "RuntimeError: the disk is full" in job.stderr
    assert "gradkeeper: the statement is in page.html" in job.stderr
    assert '<h1 id="verdict">1 finding</h1>' in page
    assert "<code>train.py crash</code>" in page
    assert "optimizer.step()" in page
    assert "Layers of optimizer" in page
    assert sorted(one.name for one in tmp_path.iterdir()) == ["page.html", "train.py"]


def test_a_script_whose_name_is_no_utf8_has_its_statement(tmp_path: Path) -> None:
    name = os.fsdecode(b"tr\xff.py")
    try:
        (tmp_path / name).write_text(SCRIPT)
    except OSError:
        pytest.skip("this file system takes no such names")

    job = run(tmp_path, "--exit-zero", "--report", "page.html", name)

    assert job.returncode == 0, job.stderr
    assert '<h1 id="verdict">1 finding</h1>' in (tmp_path / "page.html").read_text()


def test_a_page_that_cannot_be_written_is_known_before_the_training(tmp_path: Path) -> None:
    job = run(tmp_path, "--report", "no/such/page.html", "train.py", "crash")

    assert job.returncode == 2
    assert "gradkeeper run: no/such/page.html cannot be written: No such file" in job.stderr
    assert "RuntimeError" not in job.stderr


@pytest.fixture
def tape(tmp_path: Path) -> str:
    tape = Tape()
    for event in [adopted(), *window(), *window()]:
        tape.record(event)
    tape.write(tmp_path / "run.tape")
    return str(tmp_path / "run.tape")


def test_replay_writes_the_statement_of_a_tape(
    tape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", tape, "--report", str(tmp_path / "page.html")]) == 0

    assert "The books balance" in (tmp_path / "page.html").read_text()
    assert "page.html" in capsys.readouterr().err


def test_replay_says_where_a_page_cannot_be_written(
    tape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", tape, "--report", str(tmp_path)]) == 2

    assert f"{tmp_path} cannot be written: Is a directory" in capsys.readouterr().err


def test_quiet_writes_the_page_and_says_nothing(
    tape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", tape, "--quiet", "--report", str(tmp_path / "page.html")]) == 0

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert (tmp_path / "page.html").exists()
