"""Output that nobody reads, or that cannot be written: the exit code holds, and nothing is raised.

Each command in a process of its own, with the buffers that a user's has.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STALE = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
"""
CLEAN = STALE.replace("    model(x)", "    optimizer.zero_grad()\n    model(x)")
MANY = 100
"""Files whose findings fill every buffer on the way."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stale.py").write_text(STALE)
    (tmp_path / "clean.py").write_text(CLEAN)
    (tmp_path / "many").mkdir()
    for number in range(MANY):
        (tmp_path / "many" / f"stale_{number}.py").write_text(STALE)
    return tmp_path


def call(words: str, folder: Path, **streams: int) -> tuple[int, str]:
    """The exit code, and what is said on standard error where that is not one of `streams`."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-m", "gradkeeper", *words.split()],
        env=buffered,
        cwd=folder,
        text=True,
        timeout=120,
        check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},  # type: ignore[call-overload]
    )
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("check stale.py", 1),
        ("check stale.py --diff", 1),
        ("check many --format json", 1),
        ("check clean.py --statistics", 0),
        ("check nowhere.py", 2),
        ("check --nonsense", 2),
        ("rules", 0),
        ("--help", 0),
    ],
)
@pytest.mark.parametrize("both", [False, True])
def test_a_reader_who_has_gone_changes_nothing(
    words: str, code: int, both: bool, folder: Path
) -> None:
    here, there = os.pipe()
    os.close(here)
    streams = {"stdout": there, "stderr": there} if both else {"stdout": there}

    found, said = call(words, folder, **streams)

    os.close(there)
    assert found == code
    assert "Broken" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is a Linux device")
@pytest.mark.parametrize(("words", "command"), [("check stale.py", " check"), ("rules", "")])
def test_a_full_disk_is_told(words: str, command: str, folder: Path) -> None:
    with open("/dev/full", "w") as full:
        code, said = call(words, folder, stdout=full.fileno())

    assert code == 2
    assert said == (f"gradkeeper{command}: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_stream_that_the_shell_has_closed_is_left_alone(closed: str, folder: Path) -> None:
    command = f"'{sys.executable}' -m gradkeeper check many {closed}"

    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, timeout=120, check=False
    )

    assert done.returncode == 1
    assert b"Traceback" not in done.stdout + done.stderr


TEE = "sys.stdout = type('Tee', (), {'write': lambda *_: 0, 'flush': lambda _: None})()"


@pytest.mark.parametrize("left", ["sys.stdout.close()", TEE])
def test_what_a_script_leaves_of_its_output_is_its_own_matter(left: str, folder: Path) -> None:
    (folder / "train.py").write_text(f"import sys\n\nprint('trained')\n{left}\n")

    code, said = call("run --quiet train.py", folder)

    assert (code, said) == (0, "")
