"""The demo goes as told, says so where it does not, and leaves nothing but its page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.demo_excerpt import PAGE, quoted, steady, third_part
from gradkeeper.cli import demo, main
from gradkeeper.cli.demo import stage
from gradkeeper.cli.demo.scripts import BUGS, CHARACTERS
from gradkeeper.cli.demo.stage import UnexpectedError
from gradkeeper.cli.demo.training import killed, trained


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "NEEDED", ("torch_that_is_not_here",))


def script(folder: Path, text: str) -> Path:
    path = folder / "told.py"
    path.write_text(text)
    return path


def test_it_finds_mends_kills_resumes_and_writes_the_page(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "gradkeeper", "demo", "--output", "shown/here"]

    done = subprocess.run(
        command,
        cwd=tmp_path,
        # A mode that the user has set elsewhere must not end the demo at the first finding.
        env={**os.environ, "TMPDIR": str(scratch), "GRADKEEPER": "raise"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("GK101 stale-gradient") == 2
    assert "+    optimizer.zero_grad()" in done.stdout
    assert "killed (signal 9) after step" in done.stdout
    first, second = re.findall(r"sha256 ([0-9a-f]{64})", done.stdout)
    assert first == second
    page = tmp_path / "shown" / "here" / "statement.html"
    assert page.as_uri() in done.stdout
    assert all(code in page.read_text() for code in BUGS)
    assert list(scratch.iterdir()) == []
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == [page]
    assert "\x1b" not in done.stdout
    assert steady(third_part(done.stdout)) == steady(quoted(PAGE.read_text())), "run scripts/docs"


def test_on_a_terminal_it_reads_its_own_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)

    demo.check_and_mend(tmp_path)
    stage.called(tmp_path, "run", "--tape", demo.TAPE, "three_bugs.py")
    demo.write_statement(tmp_path, tmp_path / "page.html")

    assert "\x1b[1;31mGK101 stale-gradient\x1b[0m" in capsys.readouterr().out


@pytest.mark.usefixtures("without_torch")
def test_without_torch_it_checks_and_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["demo", "--output", str(tmp_path / "page")])

    shown = capsys.readouterr().out
    assert code == 0
    assert "3 found, 3 would be fixed" in shown
    assert "need torch_that_is_not_here: pip install 'torch>=2.6' numpy tqdm" in shown
    assert not (tmp_path / "page").exists()


@pytest.mark.usefixtures("without_torch")
def test_a_bug_at_another_line_than_told_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(BUGS, "GK101", 14)

    code = main(["demo"])

    assert code == 1
    assert "did not go as it should: found {'GK101': 13" in capsys.readouterr().err


def test_a_resume_that_is_not_exact_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed = 'print("resumed'
    careless = CHARACTERS.replace(resumed, f"model.out[1].bias.data.zero_()\n    {resumed}")
    shorter = careless.replace("16384", "4096").replace("epochs=3", "epochs=2")
    monkeypatch.setattr(demo, "CHARACTERS", shorter)

    with pytest.raises(UnexpectedError, match="the weights of the two trainings differ"):
        demo.kill_and_resume(tmp_path)


def test_a_training_that_fails_is_shown_with_its_last_words(tmp_path: Path) -> None:
    fails = script(tmp_path, "import sys; sys.exit('no data here')")

    with pytest.raises(UnexpectedError, match=r"the training failed:\n   no data here"):
        trained(fails, "runs")


def test_a_training_that_ends_before_the_kill_is_noticed(tmp_path: Path) -> None:
    ends = script(tmp_path, "print('step 1: loss 2.0')")

    with pytest.raises(UnexpectedError, match="ended with code 0 before the kill"):
        killed(ends, "runs", steps=2, pending=1)


def test_a_kill_comes_at_its_micro_batch(tmp_path: Path) -> None:
    waits = script(
        tmp_path,
        "import time\n"
        "print('step 1: loss 2.0\\nmicro-batch 1\\nmicro-batch 2', flush=True)\n"
        "time.sleep(300)\n",
    )

    found = killed(waits, "runs", steps=1, pending=2)

    assert (found.steps, found.pending, found.code) == (1, 2, -9)


def test_a_page_that_cannot_be_written_is_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")

    code = main(["demo", "--output", str(taken)])

    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    assert "cannot be written" in shown.err
    assert "--output" in shown.err
