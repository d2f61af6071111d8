"""What is proven is told as asked for; what cannot be exits with 2 and says why."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gradkeeper.cli import main
from tests.prove.recipe import RECIPE


def refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, *command: str
) -> str:
    monkeypatch.chdir(folder)

    assert main(["prove-resume", "--", *command]) == 2

    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise ValueError('no data')", "fails by itself, with exit code 1"),
        ("print('nothing to train')", "no optimizer took a step"),
    ],
)
def test_a_script_that_does_not_train(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    reason: str,
) -> None:
    (tmp_path / "train.py").write_text(script)

    said = refused(capsys, monkeypatch, tmp_path, sys.executable, "train.py")

    assert reason in said
    assert ("no data" in said) == ("no data" in script)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("true",), "no Python was seen"),
        (("no-such-command",), "no-such-command cannot be started"),
        ((), "name the command"),
    ],
)
def test_a_command_that_is_no_python(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    reason: str,
) -> None:
    assert reason in refused(capsys, monkeypatch, tmp_path, *command)


def test_a_script_that_saves_and_never_loads_proves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both runs train alike from the beginning, and end with equal weights."""
    (tmp_path / "train.py").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "train.py", "never"]

    assert main(["prove-resume", "--kills", "1", "--seed", "6", "--", *command]) == 2

    said, progress = capsys.readouterr()
    assert "left no file" not in progress
    assert "train.py never: nothing was resumed, so nothing is proven" in said
    assert "it started from the beginning each time" in said
    assert "by the last kill it had written state.pt: if that is a checkpoint, load it" in said


@pytest.mark.parametrize("option", ["--kills=0", "--timeout=0", "--timeout=soon"])
def test_a_number_that_makes_no_sense_is_refused(option: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["prove-resume", option, "--", "true"])

    assert stop.value.code == 2


def proven(folder: Path, *words: str) -> tuple[int, str]:
    """In a process of its own, because torchrun and modules are found from there."""
    done = subprocess.run(
        [sys.executable, "-m", "gradkeeper", "prove-resume", "--kills", "1", "--seed", "6", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("python", "-m", "package.train"),
        ("torchrun", "--nproc-per-node", "1", "package/train.py"),
        ("python", "-m", "torch.distributed.run", "--nproc-per-node=1", "-m", "package.train"),
    ],
    ids=["module", "torchrun", "torchrun module"],
)
def test_the_command_may_be_a_module_or_a_launcher(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text(RECIPE)

    code, said = proven(tmp_path, "--", *command)

    assert (code, "exact, the weights are equal bit for bit" in said) == (0, True), said
    assert "went on from step" in said


@pytest.mark.slow
def test_programs_read_json_and_what_is_kept_stays(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RECIPE + "print(open('data/rows.txt').read())\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.txt").write_text("only read")
    options = ("--share", "data", "--keep", "kept", "--format", "json")

    code, said = proven(tmp_path, *options, "--", "python", "train.py", "no-generator")

    found = json.loads(said)
    assert (code, found["exact"], found["steps"], len(found["kills"])) == (1, False, 8, 1)
    (data,) = (tmp_path / "kept" / "reference").rglob("data")
    assert data.is_symlink()
    logs = [path.read_text() for path in (tmp_path / "kept").rglob("log")]
    assert any("only read" in log for log in logs)
