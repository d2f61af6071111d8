"""`gradkeeper run`: the script keeps what is its own, and what was seen is written in any case."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FAULTY = """
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
"""
CORRECT = FAULTY.replace("    model(x)", "    optimizer.zero_grad()\n    model(x)")


def gradkeeper(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gradkeeper", "run", *arguments],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def written(folder: Path, code: str, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    (folder / "train.py").write_text(code)
    options = ("--format", "json", "--output", "found.json")
    job = gradkeeper(folder, *options, "train.py", *arguments)
    found = json.loads((folder / "found.json").read_text())
    return job.returncode, found["findings"], job.stderr


def test_a_correct_script_exits_0_and_says_that_nothing_was_found(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CORRECT)

    job = gradkeeper(tmp_path, "train.py")

    assert (job.returncode, job.stdout) == (0, "")
    assert "nothing found" in job.stderr


def test_a_faulty_script_exits_1_and_the_finding_names_its_line(tmp_path: Path) -> None:
    code, findings, _ = written(tmp_path, FAULTY)

    assert code == 1
    (found,) = findings
    assert (found["rule"], found["path"], found["line"]) == ("GK101", "train.py", 8)
    assert (found["count"], found["first_step"], found["last_step"]) == (5, 2, 6)


def test_a_finding_is_shown_on_stderr_once_when_it_happens(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULTY)

    job = gradkeeper(tmp_path, "train.py")

    assert job.returncode == 1
    assert job.stderr.count("GK101 stale-gradient") == 1
    assert "train.py:8:5" in job.stderr
    assert "found 1 error" in job.stderr


def test_the_script_sees_its_own_argv_and_main(tmp_path: Path) -> None:
    code = """
import sys, os, __main__
print(sys.argv[1:], __name__, __main__.__dict__ is globals(), os.path.basename(__file__))
"""
    (tmp_path / "train.py").write_text(code)

    job = gradkeeper(tmp_path, "train.py", "--lr", "3", "-m", "x")

    assert job.stdout == "['--lr', '3', '-m', 'x'] __main__ True train.py\n"


def test_a_module_runs_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import sys\nprint(sys.argv[1:], __name__)\n")

    job = gradkeeper(tmp_path, "-m", "job", "--epochs", "2")

    assert (job.returncode, job.stdout) == (0, "['--epochs', '2'] __main__\n")


def test_the_script_s_own_exit_code_wins(tmp_path: Path) -> None:
    code, findings, _ = written(tmp_path, FAULTY + "\nimport sys\nsys.exit(7)\n")

    assert (code, len(findings)) == (7, 1)


def test_what_was_seen_is_written_when_the_script_crashes(tmp_path: Path) -> None:
    code, findings, stderr = written(tmp_path, FAULTY + "\nraise KeyError('mine')\n")

    assert (code, len(findings)) == (1, 1)
    assert "KeyError: 'mine'" in stderr
    assert "gradkeeper" not in stderr


def test_exit_zero_is_for_findings_only(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULTY)
    (tmp_path / "fails.py").write_text("raise SystemExit(3)")

    assert gradkeeper(tmp_path, "--exit-zero", "train.py").returncode == 0
    assert gradkeeper(tmp_path, "--exit-zero", "fails.py").returncode == 3


def test_raise_ends_the_script_at_the_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULTY)

    job = gradkeeper(tmp_path, "--on-finding", "raise", "train.py")

    assert job.returncode == 1
    assert "FindingError" in job.stderr
    assert 'train.py", line 8' in job.stderr


def test_what_was_raised_is_told_once_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULTY)

    told = gradkeeper(tmp_path, "--on-finding", "raise", "train.py").stderr

    assert told.count("GK101") == 1
    assert told.count("remedy: ") == 1
    assert told.endswith("gradkeeper: found 1 error\n")


def test_what_was_raised_and_caught_is_reported_at_the_end(tmp_path: Path) -> None:
    caught = "    try:\n        optimizer.step()\n    except Exception:\n        break\n"
    (tmp_path / "train.py").write_text(FAULTY.replace("    optimizer.step()\n", caught))

    job = gradkeeper(tmp_path, "--on-finding", "raise", "train.py")

    assert job.returncode == 1
    assert job.stderr.startswith("train.py:9:9  GK101")


def test_the_environment_chooses_for_launchers(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULTY)

    assert "gradkeeper.FindingError" in gradkeeper(tmp_path, "train.py", GRADKEEPER="raise").stderr


def test_an_option_wins_over_the_environment(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULTY)

    job = gradkeeper(tmp_path, "--on-finding", "record", "train.py", GRADKEEPER="raise")

    assert "FindingError" not in job.stderr


def test_a_wrong_value_in_the_environment_exits_2_and_says_which_are_right(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULTY)

    job = gradkeeper(tmp_path, "train.py", GRADKEEPER="loud")

    assert job.returncode == 2
    assert "GRADKEEPER must be one of warn, raise, record, not 'loud'" in job.stderr
    assert "Traceback" not in job.stderr


def test_every_gradient_that_is_spent_is_checked_if_asked_for(tmp_path: Path) -> None:
    overflow = CORRECT.replace("for x in torch.randn(6, 8, 4):", "for x in data:")
    overflow = overflow.replace(
        "model =", "data = torch.randn(60, 8, 4)\ndata[50] = float('inf')\nmodel ="
    )
    (tmp_path / "train.py").write_text(overflow)
    options = ("--format", "json", "--output", "found.json", "train.py")

    plain = gradkeeper(tmp_path, *options)
    checked = gradkeeper(tmp_path, "--check-finite", *options)

    assert (plain.returncode, checked.returncode) == (0, 1)
    found = json.loads((tmp_path / "found.json").read_text())["findings"]
    assert (found[0]["rule"], found[0]["first_step"]) == ("GK305", 51)


def test_a_tape_can_be_judged_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAULTY)

    gradkeeper(tmp_path, "--tape", "train.tape", "train.py")
    again = subprocess.run(
        [sys.executable, "-m", "gradkeeper", "replay", "train.tape"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert again.returncode == 1
    assert "GK101 stale-gradient" in again.stdout


def test_what_cannot_run_exits_2(tmp_path: Path) -> None:
    assert gradkeeper(tmp_path, "missing.py").returncode == 2
    assert gradkeeper(tmp_path).returncode == 2


def test_what_is_no_script_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "loop.ipynb").write_text('{"cells": [null]}')

    notebook, folder = gradkeeper(tmp_path, "loop.ipynb"), gradkeeper(tmp_path, ".")

    assert (notebook.returncode, folder.returncode) == (2, 2)
    assert "loop.ipynb is a notebook: `gradkeeper check` reads it" in notebook.stderr
    assert ". is a folder: name the script in it" in folder.stderr
