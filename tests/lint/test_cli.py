"""`gradkeeper check` from outside: exit codes, formats, selection, files, baseline."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gradkeeper.cli import main
from tests.lint.linting import HEAD, loop

STALE = loop("model(x).mean().backward()\noptimizer.step()")
CLEAN = loop("optimizer.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()")
LATE = loop("loss = model(x).mean()\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()")

LATE_OPTIMIZER = "late = torch.optim.SGD(other.parameters(), lr=0.1)\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*arguments: str) -> int:
    return main(["check", *arguments])


def records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["findings"]
    return found


def test_a_clean_file_exits_zero_and_a_finding_one(here: Path) -> None:
    (here / "clean.py").write_text(CLEAN)
    (here / "stale.py").write_text(STALE)

    assert check("clean.py") == 0
    assert check("stale.py") == 1
    assert check("stale.py", "--exit-zero") == 0


def test_what_cannot_run_exits_two(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "clean.py").write_text(CLEAN)

    assert check("missing.py") == 2
    assert check("clean.py", "--select", "GK999") == 2
    assert "GK999" in capsys.readouterr().err


def test_json_has_the_shape_of_the_contract(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "stale.py").write_text(STALE)

    check("stale.py", "--format", "json")

    (found,) = records(capsys)
    assert (found["rule"], found["path"], found["line"]) == ("GK101", "stale.py", 9)
    assert (found["severity"], found["certain"], found["cell"]) == ("error", True, None)
    assert found["fix"] is not None


def test_a_file_that_does_not_parse_is_a_finding_and_the_others_are_checked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "broken.py").write_text("def f(:\n")
    (here / "stale.py").write_text(STALE)

    assert check(".", "--format", "json") == 1

    assert [(one["rule"], one["path"]) for one in records(capsys)] == [
        ("GK000", "broken.py"),
        ("GK101", "stale.py"),
    ]


def test_folders_honour_gitignore_and_a_named_file_is_always_checked(here: Path) -> None:
    (here / ".git").mkdir()
    (here / ".gitignore").write_text("old/\n*_copy.py\n")
    (here / "old").mkdir()
    (here / "old" / "stale.py").write_text(STALE)
    (here / "stale_copy.py").write_text(STALE)
    (here / ".venv").mkdir()
    (here / ".venv" / "stale.py").write_text(STALE)

    assert check(".") == 0
    assert check("stale_copy.py") == 1


def test_infos_are_told_when_they_are_selected(here: Path) -> None:
    (here / "late.py").write_text(LATE)

    assert check("late.py") == 0
    assert check("late.py", "--select", "GK603") == 1
    assert check("late.py", "--extend-select", "late-zero") == 1
    assert check("late.py", "--select", "GK6", "--ignore", "GK603") == 0


def test_select_replaces_the_default_set(here: Path) -> None:
    (here / "stale.py").write_text(STALE)

    assert check("stale.py", "--select", "GK102,GK103") == 0
    assert check("stale.py", "--ignore", "GK101") == 0


def test_pyproject_selects_and_ignores_per_file(here: Path) -> None:
    (here / "pyproject.toml").write_text(
        '[tool.gradkeeper]\n[tool.gradkeeper.per-file-ignores]\n"old/*.py" = ["GK101"]\n'
    )
    (here / "old").mkdir()
    (here / "old" / "stale.py").write_text(STALE)
    (here / "stale.py").write_text(STALE)

    assert check("old") == 0
    assert check("stale.py") == 1


def test_an_unknown_setting_exits_two(here: Path) -> None:
    (here / "pyproject.toml").write_text("[tool.gradkeeper]\nselct = ['GK101']\n")
    (here / "clean.py").write_text(CLEAN)

    assert check("clean.py") == 2


def test_an_unused_suppression_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "clean.py").write_text(CLEAN + "# gradkeeper: allow stale-gradient - once\n")

    assert check("clean.py") == 0
    assert "clean.py:11: nothing to allow here: stale-gradient" in capsys.readouterr().err


def test_a_baseline_silences_what_is_old_and_tells_what_is_new(here: Path) -> None:
    (here / "stale.py").write_text(STALE)

    assert check("stale.py", "--write-baseline", "base.json") == 0
    (here / "stale.py").write_text("# moved down\n\n" + STALE)
    assert check("stale.py", "--baseline", "base.json") == 0
    (here / "other.py").write_text(STALE)
    assert check("other.py", "--baseline", "base.json") == 1
    assert check("stale.py", "--baseline", "missing.json") == 2


def test_fix_mends_the_file_and_diff_only_shows_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = here / "stale.py"
    file.write_text(STALE)

    assert check("stale.py", "--diff") == 1
    assert "+    optimizer.zero_grad()" in capsys.readouterr().out
    assert file.read_text() == STALE
    assert check("stale.py", "--fix") == 0
    assert check("stale.py") == 0


def test_fix_reports_what_is_left_where_it_stands_afterwards(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    never = "for x in loader:\n    other(x).mean().backward()\n    late.step()\n    late.step()\n"
    (here / "two.py").write_text(STALE + "other = nn.Linear(4, 1)\n" + LATE_OPTIMIZER + never)

    left = check("two.py", "--fix", "--format", "json")

    again = check("two.py", "--format", "json")
    out = capsys.readouterr().out
    first, second = out.split('{\n  "version"')[1:]
    assert (left, first) == (again, second)


def test_diff_counts_what_cannot_be_fixed_and_leaves_the_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bypassed = loop(
        "optimizer.zero_grad()\nscaler.scale(model(x).mean()).backward()\noptimizer.step()",
        head=HEAD + "scaler = torch.amp.GradScaler()\n",
    )
    (here / "bypassed.py").write_text(bypassed)

    assert check("bypassed.py", "--diff") == 1

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "1 found, 0 would be fixed\n"
    assert (here / "bypassed.py").read_text() == bypassed


def test_diff_of_a_clean_file_exits_zero_and_says_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "clean.py").write_text(CLEAN)

    assert check("clean.py", "--diff") == 0
    assert capsys.readouterr() == ("", "")


def test_a_fix_keeps_a_files_encoding(here: Path) -> None:
    code = "# -*- coding: latin-1 -*-\n# caf\xe9\n" + STALE
    (here / "old.py").write_bytes(code.encode("latin-1"))

    assert check("old.py", "--fix") == 0

    new = (here / "old.py").read_bytes().decode("latin-1")
    assert new.replace("    optimizer.zero_grad()\n", "") == code


def test_stdin_cannot_be_fixed_in_place() -> None:
    assert check("-", "--fix") == 2


def test_statistics_say_how_much_was_understood(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "clean.py").write_text(CLEAN)

    check("clean.py", "--statistics")

    assert "training loops: 1 seen, 1 rehearsed through to a step" in capsys.readouterr().out


def test_many_files_are_checked_on_several_cores(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(20):
        (here / f"stale_{number:02}.py").write_text(STALE)

    check(".", "--format", "json")

    assert [one["path"] for one in records(capsys)] == [f"stale_{n:02}.py" for n in range(20)]


def test_a_helper_of_the_same_project_is_followed(here: Path) -> None:
    (here / "helpers.py").write_text("def clear(optimizer):\n    optimizer.zero_grad()\n")
    body = "clear(optimizer)\nmodel(x).mean().backward()\noptimizer.step()"
    (here / "train.py").write_text(loop(body, head=HEAD + "from helpers import clear\n"))

    assert check("train.py") == 0


def test_stdin_is_a_file_like_any_other() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gradkeeper", "check", "-", "--format", "json"],
        input=STALE,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"][0]["path"] == "<stdin>"


def test_checking_never_imports_torch(here: Path) -> None:
    (here / "stale.py").write_text(STALE)
    code = (
        "import sys; from gradkeeper.cli import main; main(['check', 'stale.py']); "
        "sys.exit('torch' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_torch_guard_can_fail() -> None:
    pytest.importorskip("torch")
    code = "import sys, torch; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1
