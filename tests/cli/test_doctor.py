"""gradkeeper doctor: its words and its exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from gradkeeper.checkpoint import Store
from gradkeeper.cli import main
from gradkeeper.cli.doctor import _words
from gradkeeper.engine import Engine
from gradkeeper.engine.determinism import in_the_way, machine

PROBED = """
import torch
from gradkeeper import Engine

own = torch.Generator()

def probe(draw=False):
    model = torch.nn.Linear(4, 1)
    engine = Engine(model, torch.optim.SGD(model.parameters(), lr=0.1), progress=False)

    def step(window):
        noise = torch.randn(8, 4, generator=own) if draw else 0
        window.backward(model(torch.ones(8, 4) + noise).square().mean())

    return engine, step

def noisy():
    return probe(draw=True)

def of_one_thread_less():
    torch.set_num_threads(torch.get_num_threads() - 1)
    return probe()

def empty():
    return None

def failing():
    return {}["optimizer"]

def leaving():
    raise SystemExit(0)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(PROBED)
    return file


@pytest.fixture
def save(tmp_path: Path) -> Path:
    model = nn.Linear(4, 1)
    folder = tmp_path / "run"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = Engine(model, optimizer, checkpoint=folder, progress=False)
    engine.save()
    return folder


def test_it_says_what_it_looked_at_and_what_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0

    out = capsys.readouterr().out
    assert f"torch {torch.__version__}" in out
    assert f"{torch.get_num_threads()} threads" in out
    assert "not looked at: a checkpoint's machine (name its folder), your own step (--probe)" in out
    assert len(out.splitlines()) == 2, "what is here, and the verdict, a line each"


@pytest.mark.parametrize("named", ["folder", "checkpoint"])
def test_a_checkpoint_of_this_machine_is_silent(
    save: Path, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = save if named == "folder" else save / Store(save).names()[-1]

    assert main(["doctor", str(place)]) == 0

    assert "checkpoint  saved on a machine as this one" in capsys.readouterr().out


def test_a_checkpoint_of_other_settings_is_told(
    save: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert main(["doctor", str(save)]) == 1
    finally:
        torch.set_num_threads(threads)

    out = capsys.readouterr().out
    assert f"checkpoint  threads was {threads} at the save and is {threads + 1} here" in out
    assert "1 in the way of bit for bit" in out


@pytest.mark.parametrize(("function", "code"), [("of_one_thread_less", 0), ("probe", 1)])
def test_a_checkpoint_is_compared_with_the_settings_of_the_program_that_is_probed(
    save: Path, file: Path, function: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert main(["doctor", str(save), "--probe", f"{file}:{function}"]) == code
    finally:
        torch.set_num_threads(threads)

    told = f"threads was {threads} at the save and is {threads + 1} here"
    assert (told in capsys.readouterr().out) is bool(code)


def test_rounding_of_a_gpu_is_told_and_not_judged() -> None:
    here = machine(gpu=False) | {
        "gpu": "A100",
        "gpus": 1,
        "cudnn.benchmark": False,
        "matmul precision": "high",
        "cudnn.allow_tf32": False,
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "NCCL_ALGO": "",
        "deterministic": True,
    }

    assert "A100, TF32 in products: yes, in convolutions: no;" in _words(here, "2.13.0")
    assert in_the_way(here) == []


def test_a_probe_that_repeats(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--probe", f"{file}:probe"]) == 0

    assert "all 2 tensors equal, bit for bit" in capsys.readouterr().out


def test_a_probe_that_does_not(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--probe", f"{file}:noisy"]) == 1

    assert "ended differently: weight, in 4 of 4 numbers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("{file}:empty", "must return an engine and a function that takes a window"),
        ("{file}:missing", "has no function 'missing'"),
        ("{file}:failing", "train.py:failing failed: KeyError: 'optimizer'"),
        ("{file}:leaving", "train.py:leaving failed: SystemExit: 0"),
        ("nowhere.py:probe", "there is no such file"),
        ("train", "takes FILE.py:FUNCTION"),
    ],
)
def test_what_cannot_be_probed_is_an_error(
    file: Path, place: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--probe", place.format(file=file)]) == 2

    assert told in capsys.readouterr().err


def doctor(place: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "gradkeeper", "doctor", "--probe", place]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_a_program_finds_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(PROBED)
    (tmp_path / "train.py").write_text("from parts import probe\n")

    done = doctor(f"{tmp_path / 'train.py'}:probe")

    assert done.returncode == 0, done.stderr


def test_a_program_that_fails_is_shown_without_lines_of_ours(file: Path) -> None:
    done = doctor(f"{file}:failing")

    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    places = [line.strip() for line in lines if line.startswith("  File ")]
    assert len(places) == 1
    assert places[0].startswith(f'File "{file}", line ')
    assert lines[-1] == f"gradkeeper doctor: {file}:failing failed: KeyError: 'optimizer'"


def test_a_folder_without_a_checkpoint_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(tmp_path)]) == 2

    assert "there is no checkpoint" in capsys.readouterr().err
    Store(tmp_path).save({"a": 1})
    assert main(["doctor", str(tmp_path)]) == 2
    assert "does not say where it was saved" in capsys.readouterr().err
