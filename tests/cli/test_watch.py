"""`check --watch`: told at once, and again whenever it has become something else."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradkeeper.cli import main
from tests.cli.test_also import STALE
from tests.cli.test_exits import heed_signals

MENDED = f"{STALE}    optimizer.zero_grad()\n"
PATIENCE = 120
"""Seconds; a machine under load is no bug."""


class Watching:
    def __init__(self, folder: Path, *options: str) -> None:
        self._log = folder.parent / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gradkeeper", "check", "--watch", *options, "."],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=heed_signals,
            )

    def wait_for(self, words: str, times: int = 1) -> str:
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            log = self._log.read_text()
            if log.count(words) >= times and log.endswith("Ctrl-C ends\n"):
                return log
            assert self.process.poll() is None, log
            time.sleep(0.05)
        raise AssertionError(f"waited in vain for {words!r}:\n{log}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(STALE)
    return tmp_path / "project"


@pytest.fixture
def watching(project: Path) -> Iterator[Watching]:
    started = Watching(project)
    yield started
    started.process.kill()
    started.process.wait()


def test_a_change_is_told_when_it_is_saved(project: Path, watching: Watching) -> None:
    watching.wait_for("train.py:7:5  GK101 stale-gradient")

    (project / "train.py").write_text(MENDED)
    watching.wait_for("nothing found in 1 training loop")
    (project / "train.py").write_text(f"# moved\n{STALE}")

    told = watching.wait_for("train.py:8:5  GK101 stale-gradient")
    assert "    8 |     optimizer.step()" in told, "the line as it is now"


def test_a_new_file_and_new_settings_are_seen(project: Path, watching: Watching) -> None:
    watching.wait_for("found 1 error")

    (project / "more.py").write_text(STALE)
    watching.wait_for("found 2 errors")
    (project / "pyproject.toml").write_text("[tool.gradkeeper]\nignore = ['GK999']\n")
    watching.wait_for("no rule has the code or name 'GK999'")
    (project / "pyproject.toml").write_text("[tool.gradkeeper]\nignore = ['GK101']\n")

    watching.wait_for("nothing found in 2 training loops")


def test_nothing_is_told_twice(project: Path, watching: Watching) -> None:
    watching.wait_for("found 1 error")

    (project / "notes.py").write_text("note = 1\n")
    (project / "more.py").write_text(STALE)

    assert watching.wait_for("found 2 errors").count("found 1 error") == 1


def test_ctrl_c_ends_it_well(watching: Watching) -> None:
    watching.wait_for("found 1 error")

    watching.process.send_signal(signal.SIGINT)

    assert watching.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fix", "."], "--watch goes without --fix"),
        (["--write-baseline", "b.json", "."], "--watch goes without --write-baseline"),
        (["--format", "json", "."], "--watch tells people"),
        (["-"], "--watch tells people"),
        (["nowhere"], "there is no file or folder nowhere"),
        (["--select", "GK999", "."], "no rule has the code or name 'GK999'"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--watch", *words]) == 2

    assert said in capsys.readouterr().err
