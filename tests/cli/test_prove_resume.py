"""What cannot be proven exits with 2 and says why."""

import sys
from pathlib import Path

import pytest

from gradkeeper.cli import main


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


def test_fewer_than_one_kill_is_refused() -> None:
    with pytest.raises(SystemExit) as stop:
        main(["prove-resume", "--kills", "0", "--", "true"])

    assert stop.value.code == 2
