import json
import os
from pathlib import Path

import pytest

from gradkeeper.cli import main
from gradkeeper.model import Site, Tape
from gradkeeper.model.events import Adopt, Backward, Batch, Close, Step, Zero

LOSS, STEP = Site("train.py", 11, 5, "main"), Site("train.py", 12, 5, "main")


def record(path: Path, *, zeroing: bool) -> str:
    tape = Tape()
    tape.record(Adopt(site=LOSS, optimizer="optimizer", accounts=("model",)))
    for _ in range(4):
        tape.record(Batch(site=LOSS))
        if zeroing:
            tape.record(Zero(site=LOSS, accounts=("model",)))
        tape.record(Backward(site=LOSS, accounts=("model",)))
        tape.record(Step(site=STEP, optimizer="optimizer"))
    tape.record(Close(site=LOSS))
    tape.write(path)
    return str(path)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    return record(tmp_path / "wrong.tape", zeroing=False)


@pytest.fixture
def right(tmp_path: Path) -> str:
    return record(tmp_path / "right.tape", zeroing=True)


def test_books_that_balance_exit_with_0(right: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", right]) == 0

    assert capsys.readouterr().out == "nothing found\n"


def test_a_finding_exits_with_1_and_names_both_lines(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", wrong]) == 1

    assert capsys.readouterr().out == (
        "train.py:12:5  GK101 stale-gradient\n"
        "   step() applies the gradient of line 11 a second time\n"
        "   account `optimizer`: credited on 11, spent on 12, not zeroed since "
        "(3 times, steps 2 to 4)\n"
        "   remedy: optimizer.zero_grad() right after the step           "
        "(gradkeeper explain GK101)\n"
        "\n"
        "found 1 error\n"
    )


def test_json_has_the_shape_that_is_promised(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", wrong, "--format", "json"]) == 1

    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "findings": [
            {
                "rule": "GK101",
                "name": "stale-gradient",
                "severity": "error",
                "certain": True,
                "path": "train.py",
                "line": 12,
                "column": 5,
                "cell": None,
                "message": "step() applies the gradient of line 11 a second time",
                "because": [
                    {"path": "train.py", "line": 11, "note": "this backward's gradient"},
                    {
                        "path": "train.py",
                        "line": 12,
                        "note": "was applied here already, and not zeroed since",
                    },
                ],
                "count": 3,
                "first_step": 2,
                "last_step": 4,
                "rank": None,
                "when": None,
                "fix": None,
            }
        ],
    }


def test_findings_can_go_to_a_file(wrong: str, tmp_path: Path) -> None:
    out = tmp_path / "findings.json"

    assert main(["replay", wrong, "--format", "json", "--output", str(out)]) == 1

    assert json.loads(out.read_text())["findings"][0]["rule"] == "GK101"


def damaged(path: Path) -> str:
    lines = path.read_text().splitlines(keepends=True)
    lines[3] = lines[3][:15] + "\n"
    path.write_text("".join(lines))
    return "line 4 is damaged"


def newer(path: Path) -> str:
    path.write_text('{"gradkeeper-tape": 99}\n')
    return "version 99"


def binary(path: Path) -> str:
    path.write_bytes(os.urandom(400))
    return "not a tape"


def gone(path: Path) -> str:
    path.unlink()
    return "No such file"


def folder(path: Path) -> str:
    path.unlink()
    path.mkdir()
    return "Is a directory"


@pytest.mark.parametrize("harm", [damaged, newer, binary, gone, folder])
def test_a_tape_that_cannot_be_read_is_a_message_and_exit_2(
    harm: object, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(harm)
    why = harm(Path(wrong))

    assert main(["replay", wrong]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"gradkeeper replay: {wrong}: ")
    assert why in error
    assert "Traceback" not in error


def test_an_output_that_cannot_be_written_is_a_message_and_exit_2(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "no" / "such" / "folder.json"

    assert main(["replay", wrong, "--output", str(out)]) == 2

    assert f"{out} cannot be written: No such file" in capsys.readouterr().err
