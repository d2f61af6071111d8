"""`gradkeeper check` from outside: exit codes, formats, selection, files, baseline."""

import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gradkeeper.cli import main
from gradkeeper.lint import check as checking
from gradkeeper.lint.program import Checked
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


def test_the_settings_are_those_of_the_folder_that_is_checked(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, settings in (
        ("lenient", '[tool.gradkeeper]\nignore = ["GK101"]\n'),
        ("silent", "[tool.other]\n"),
        ("strict", "[tool.gradkeeper]\n"),
    ):
        (here / name / "src").mkdir(parents=True)
        (here / name / "pyproject.toml").write_text(settings)
        (here / name / "src" / "stale.py").write_text(STALE)

    assert check("lenient") == 0
    assert check("strict", "lenient") == 1
    assert check("silent") == 1
    monkeypatch.chdir(here / "lenient")
    assert check("../strict") == 1
    assert check(str(here / "silent")) == 0, "of no project: as where one stands"


def test_a_setting_may_be_one_code(here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.gradkeeper]\nignore = "GK101"\n')
    (here / "stale.py").write_text(STALE)

    assert check("stale.py") == 0


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("ignore = 3", 'must be a list of rules, such as ["GK101"], not 3'),
        ("select = [1]", "must be a list of rules"),
        ('ignore = ["GK999"]', "no rule has the code or name 'GK999'"),
        ("per-file-ignores = 3", "must be a table of patterns and codes"),
        ('per-file-ignores = {"a.py" = 3}', "must be a list of rules"),
        ("selct = []", "no setting 'selct'"),
        ("ignore = [", "pyproject.toml: "),
    ],
)
def test_a_setting_that_cannot_be_understood_exits_two_and_says_what_is_wanted(
    here: Path, capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    (here / "pyproject.toml").write_text(f"[tool.gradkeeper]\n{setting}\n")
    (here / "clean.py").write_text(CLEAN)

    assert check("clean.py") == 2

    err = capsys.readouterr().err
    assert err.startswith(f"gradkeeper check: {here / 'pyproject.toml'}: ")
    assert said in err


def test_a_section_that_is_no_table_exits_two(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "pyproject.toml").write_text("[tool]\ngradkeeper = 3\n")
    (here / "clean.py").write_text(CLEAN)

    assert check("clean.py") == 2
    assert "must be a table" in capsys.readouterr().err


def test_a_loop_of_links_is_no_file(here: Path) -> None:
    (here / "one.py").symlink_to("two.py")
    (here / "two.py").symlink_to("one.py")
    (here / "folder").symlink_to(here, target_is_directory=True)
    (here / "clean.py").write_text(CLEAN)

    assert check(".") == 0
    assert check("one.py") == 2


def test_a_terminal_that_knows_ascii_only_gets_a_report(here: Path) -> None:
    (here / "stale.py").write_text(STALE.replace("step()", "step()  # \u00e9t\u00e9 \U0001f600"))

    done = subprocess.run(
        [sys.executable, "-m", "gradkeeper", "check", "stale.py"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, b"")
    assert rb"optimizer.step()  # \xe9t\xe9" in done.stdout


def test_an_unused_suppression_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "clean.py").write_text(CLEAN + "# gradkeeper: allow stale-gradient - once\n")

    assert check("clean.py") == 0
    assert "clean.py:11: nothing to allow here: stale-gradient" in capsys.readouterr().err


def test_without_a_path_the_folder_one_is_in_is_checked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "src").mkdir()
    (here / "src" / "train.py").write_text(STALE)

    assert check() == 1

    assert capsys.readouterr().out.startswith("src/train.py:")


def test_a_binary_file_is_told_as_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "weights.py").write_bytes(b"\x80\x02\x00\xff")

    assert check("weights.py") == 1

    told = capsys.readouterr().out
    assert "cannot be read as Python: it holds null bytes, as binary files and UTF-16 do" in told
    assert "remedy: save it as UTF-8, or leave the file out" in told


def test_a_missing_baseline_is_told_with_how_one_is_made(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "stale.py").write_text(STALE)

    assert check("stale.py", "--baseline", "missing.json") == 2

    assert capsys.readouterr().err == (
        "gradkeeper check: the baseline missing.json cannot be read: "
        "No such file or directory; --write-baseline makes one\n"
    )


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


GAN = """\
import torch
from torch import nn
G, D = nn.Linear(4, 8), nn.Linear(8, 1)
optG = torch.optim.Adam(G.parameters(), lr=1e-3)
optD = torch.optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for real in torch.randn(12, 16, 8):
    optD.zero_grad()
    d_loss = bce(D(real), torch.ones(16, 1)) + bce(D(G(torch.randn(16, 4))), torch.zeros(16, 1))
    d_loss.backward()
    optD.step()
    g_loss = bce(D(G(torch.randn(16, 4))), torch.ones(16, 1))
    g_loss.backward()
    optG.step()
"""


def test_a_fix_says_what_the_step_goes_on_doing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "gan.py").write_text(GAN)

    assert check("gan.py", "--diff") == 1
    would = capsys.readouterr().err
    assert check("gan.py", "--fix") == 0
    out, err = capsys.readouterr()

    said = (
        "gan.py:14:5: `optG` still applies the gradient of line 10 as well, which `optD` has "
        "applied: if that loss is for `optD` alone, detach() what it gets from `optG`\n"
    )
    assert would == f"1 found, 1 would be fixed\n{said}"
    assert err == f"fixed 1, 0 left\n{said}"
    assert out == "nothing else found\n"


def test_a_fix_tells_what_the_fault_had_hidden(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "gan.py").write_text(GAN.replace("    optD.zero_grad()\n", ""))

    assert check("gan.py", "--fix", "--format", "json") == 1

    assert {one["rule"] for one in records(capsys)} == {"GK104"}
    assert "optG.zero_grad()" in (here / "gan.py").read_text()


def test_a_fix_has_nothing_to_add_where_one_loss_feeds_two_optimizers(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = HEAD + "other = nn.Linear(4, 4)\n" + LATE_OPTIMIZER
    body = "model(other(x)).mean().backward()\noptimizer.step()\nlate.step()"
    (here / "two.py").write_text(loop(body, head=head))

    assert check("two.py", "--fix") == 0

    out, err = capsys.readouterr()
    assert err == "fixed 2, 0 left\n"
    assert out == "nothing found in 1 training loop\n"


HELPERS = """\
def train(model, optimizer, loader):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
"""
CALLER = """\
import torch
from helpers import train

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    train(model, optimizer, torch.randn(6, 8, 4))
    for p in model.parameters():
        {between}
    model(torch.randn(8, 4)).mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
"""


@pytest.mark.parametrize("option", ["--fix", "--diff"])
def test_a_fix_that_would_bring_a_fault_to_another_file_is_not_made(
    here: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (here / "helpers.py").write_text(HELPERS)
    (here / "main.py").write_text(CALLER.format(between="p.grad.zero_()"))

    assert check(".", option) == 1

    out, err = capsys.readouterr()
    assert (here / "helpers.py").read_text() == HELPERS
    assert "+ " not in out
    assert not re.search(r"fixed [1-9]", err)


def test_a_fix_that_suits_the_files_that_import_it_is_made(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "helpers.py").write_text(HELPERS)
    (here / "main.py").write_text(CALLER.format(between="print(p.shape)"))

    assert check(".", "--fix") == 0

    assert capsys.readouterr().err == "fixed 1, 0 left\n"
    assert (here / "helpers.py").read_text() == HELPERS + "        optimizer.zero_grad()\n"


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
    count, left = told.err.splitlines()
    assert count == "1 found, 0 would be fixed"
    assert left.startswith("bypassed.py:11:5: GK302 scaler-bypassed: ")
    assert left.endswith(" (no automatic fix)")
    assert (here / "bypassed.py").read_text() == bypassed


def test_fix_says_of_each_finding_that_stays_that_there_is_no_fix(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    never = "other = nn.Linear(4, 1)\nfor x in loader:\n    other(x).mean().backward()\n"
    (here / "two.py").write_text(STALE + never.replace("for", f"{LATE_OPTIMIZER}for"))

    assert check("two.py", "--fix") == 1
    first = capsys.readouterr().err
    assert check("two.py", "--fix") == 1

    stays = "two.py:14:5: GK107 never-stepped: no automatic fix\n"
    assert first == f"fixed 1, 1 left\n{stays}"
    assert capsys.readouterr().err == f"fixed 0, 1 left\n{stays}"


def test_fix_says_what_only_an_unsafe_fix_would_mend(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = "model(x).mean().backward()\noptimizer.step()"
    (here / "perhaps.py").write_text(loop(f"if x.sum() > 0:\n    optimizer.zero_grad()\n{trained}"))

    assert check("perhaps.py", "--fix", "--extend-select", "GK101") == 1

    count, left = capsys.readouterr().err.splitlines()
    assert count == "fixed 0, 1 left"
    assert left.endswith("GK101 stale-gradient: --unsafe-fixes would fix it")


def test_diff_tells_what_stays_where_it_stands_now(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    never = "other = nn.Linear(4, 1)\nfor x in loader:\n    other(x).mean().backward()\n"
    (here / "two.py").write_text(STALE + never.replace("for", f"{LATE_OPTIMIZER}for"))

    assert check("two.py", "--diff") == 1

    out, err = capsys.readouterr()
    assert out.count("\n+    optimizer.zero_grad()\n") == 1
    count, left = err.splitlines()
    assert count == "2 found, 1 would be fixed"
    assert left.startswith("two.py:13:5: GK107 never-stepped: ")


def test_diff_tells_what_only_an_unsafe_fix_would_mend(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = "model(x).mean().backward()\noptimizer.step()"
    (here / "perhaps.py").write_text(loop(f"if x.sum() > 0:\n    optimizer.zero_grad()\n{trained}"))

    assert check("perhaps.py", "--diff", "--extend-select", "GK101") == 1
    careful = capsys.readouterr().err
    assert check("perhaps.py", "--diff", "--extend-select", "GK101", "--unsafe-fixes") == 1

    assert careful.endswith(" (--unsafe-fixes would fix it)\n")
    assert capsys.readouterr().err == "1 found, 1 would be fixed\n"


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


def test_unsafe_fixes_alone_change_nothing_and_say_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "stale.py").write_text(STALE)

    assert check("stale.py", "--unsafe-fixes") == 1

    out, err = capsys.readouterr()
    assert (here / "stale.py").read_text() == STALE
    assert err == "--unsafe-fixes changes nothing by itself: add --fix to apply, --diff to see\n"
    assert "GK101" in out


def silence(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert check(*arguments) == 0
    out: str = capsys.readouterr().out
    return out


def test_silence_says_what_it_is_worth(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty").mkdir()
    (here / "README.md").write_text("no code")
    assert silence(capsys, "empty", ".") == (
        "nothing to check: no Python file or notebook in empty, .\n"
    )

    (here / "quiet.py").write_text("print('hello')\n")
    assert silence(capsys, ".") == "nothing found: no training loop was seen in 1 file\n"

    (here / "clean.py").write_text(CLEAN)
    assert silence(capsys, ".") == "nothing found in 1 training loop\n"
    assert silence(capsys, ".", "--quiet") == ""

    (here / "unseen.py").write_text(
        CLEAN.replace("    optimizer.zero", "    break\n    optimizer.zero")
    )
    assert silence(capsys, ".") == (
        "nothing found: 1 training loop checked, 1 not understood (--explain-silence says why)\n"
    )


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


def test_a_line_from_stdin_is_shown_like_that_of_a_file() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gradkeeper", "check", "-"],
        input=STALE,
        capture_output=True,
        text=True,
        check=False,
    )

    place, line, marker, *_ = done.stdout.splitlines()
    assert place.startswith("<stdin>:")
    assert line.endswith("|     optimizer.step()")
    assert "^ step() applies the gradient of line " in marker


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


def test_a_check_puts_the_search_for_garbage_off_until_it_is_done(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = gc.get_threshold()
    during = []
    check_program = checking.check_program

    def watched(*arguments: Any, **options: Any) -> dict[str, Checked]:
        during.append(gc.get_threshold()[0])
        return check_program(*arguments, **options)

    monkeypatch.setattr(checking, "check_program", watched)
    (here / "stale.py").write_text(STALE)

    assert check("stale.py") == 1

    assert during == [checking.RARELY]
    assert gc.get_threshold() == before


def test_a_large_tree_is_told_the_same_as_each_of_its_files(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (here / f"part{number}.py").write_text(f"size = {number}\n")
    (here / "stale.py").write_text(STALE)
    check("--format", "json", "stale.py")
    alone = records(capsys)
    monkeypatch.setattr(checking, "SMALL_TREE", 5)

    check("--format", "json", ".")

    assert alone
    assert records(capsys) == alone
