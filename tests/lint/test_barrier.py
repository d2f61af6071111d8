"""One file that cannot be checked costs that file: GK001, exit code 2, and the others are told."""

import os
from pathlib import Path
from typing import Any

import pytest

from gradkeeper.cli import main
from gradkeeper.lint import check, check_source, run
from gradkeeper.lint.check import rehearse_files
from gradkeeper.lint.program import Checked, ProgramFiles
from gradkeeper.rules import ALL
from tests.lint.linting import HEAD, loop

STALE = loop("model(x).mean().backward()\noptimizer.step()")
CLEAN = loop("optimizer.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plant(monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    """Whatever rehearses a file fails on one of them."""

    def failing(trees: dict[str, Any], *args: Any, **options: Any) -> dict[str, Checked]:
        if any(path.endswith("planted.py") for path in trees):
            raise fault
        return rehearse_files(trees, *args, **options)

    monkeypatch.setattr(check, "rehearse_files", failing)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (AttributeError("no such thing"), "AttributeError: no such thing"),
        (RecursionError(), "nested too deeply"),
        (MemoryError(), "memory"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_a_planted_crash_costs_exactly_one_file(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: Exception,
    why: str,
) -> None:
    plant(monkeypatch, fault)
    (here / "a_stale.py").write_text(STALE)
    (here / "planted.py").write_text(STALE)
    (here / "z_stale.py").write_text(STALE)

    code = main(["check", "."])

    out, err = capsys.readouterr()
    assert code == 2
    assert [line for line in out.splitlines() if "  GK" in line] == [
        "a_stale.py:9:5  GK101 stale-gradient",
        "planted.py:1:1  GK001 not-checked (warning)",
        "z_stale.py:9:5  GK101 stale-gradient",
    ]
    assert why in out
    assert "Traceback" not in out + err


def test_a_crash_in_one_file_of_a_program_leaves_the_others_together(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, AttributeError("no such thing"))
    train = "def train(model, optimizer, loader):\n    for x in loader:\n        {}\n"
    (here / "engine.py").write_text(
        train.format("model(x).mean().backward()\n        optimizer.step()")
    )
    (here / "main.py").write_text(
        HEAD + "from engine import train\ntrain(model, optimizer, torch.randn(6, 8, 4))\n"
    )
    (here / "planted.py").write_text("from engine import train\n" + STALE)

    assert main(["check", "."]) == 2

    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if "  GK" in line] == [
        "engine.py:4:9  GK101 stale-gradient",
        "planted.py:1:1  GK001 not-checked (warning)",
    ]


def test_the_traceback_is_shown_where_it_is_asked_for(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, AttributeError("no such thing"))
    (here / "planted.py").write_text(STALE)

    assert main(["check", "planted.py", "--traceback"]) == 2

    out, err = capsys.readouterr()
    assert "Traceback" not in out
    assert err.startswith("planted.py:\nTraceback")
    assert "AttributeError: no such thing" in err


def test_who_accepts_a_file_that_is_not_checked_may_say_so(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, AttributeError("no such thing"))
    (here / "planted.py").write_text(STALE)

    assert main(["check", "planted.py", "--select", "GK102", "--exit-zero"]) == 2
    assert main(["check", "planted.py", "--ignore", "GK001"]) == 0


def test_the_user_may_still_interrupt_and_sees_no_traceback(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, KeyboardInterrupt())
    (here / "a_stale.py").write_text(STALE)
    (here / "planted.py").write_text(STALE)

    assert main(["check", "."]) == 130

    said = "gradkeeper check: interrupted; nothing is told of what was checked so far\n"
    assert capsys.readouterr() == ("", said)


def dies_on_three(program: ProgramFiles) -> dict[str, Checked]:
    if "3" in program.paths:
        os._exit(1)
    return {path: Checked(unused=[(path, "seen")]) for path in program.paths}


def test_a_process_that_dies_takes_one_file_with_it() -> None:
    numbers = range(0, 40, 2)
    made = [ProgramFiles([str(number), str(number + 1)]) for number in numbers]

    results: dict[str, Checked] = {}
    for _, some in check._on_cores(dies_on_three, made, check._all_died, 2):
        results |= some

    assert set(results) == {str(number) for number in range(40)}
    assert [path for path, checked in results.items() if checked.findings] == ["3"]
    assert [path for path, checked in results.items() if not checked.unused] == ["3"]


CHAIN = "if a == 0:\n    pass\n" + "".join(
    f"elif a == {n}:\n    optimizer.zero_grad()\n" for n in range(1, 1000)
)
NESTED = "".join(" " * depth + f"for x{depth} in loader:\n" for depth in range(30))
STEP = "model(x).mean().backward()\n{}optimizer.step()\n"
HUGE = "data = [\n" + "    'loss.backward()',\n" * 250_000 + "]\n"
LARGE = {
    "a thousand elif": HEAD + CHAIN + "for x in loader:\n    " + STEP.format("    "),
    "thirty loops inside one another": HEAD + NESTED + " " * 30 + STEP.format(" " * 30),
    "megabytes": HUGE + STALE,
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_beyond_the_budget_is_told(name: str) -> None:
    found = check_source(LARGE[name], "large.py", ALL, fixes=False).findings

    assert [(one.rule, one.name) for one in found] == [("GK001", "not-checked")]


TQDM = """\
from tqdm import tqdm
bar = tqdm(enumerate(loader), total=4)
for i, x in bar:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    bar.close()
"""
ZIPPED = TQDM.replace("enumerate(loader)", "zip(loader, [1, 2])")
NOAM = """\
step = 0.0
for x in loader:
    optimizer.param_groups[0]["lr"] = min(step ** -0.5, step * (-40.0) ** 1.5)
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    step += 1
"""


@pytest.mark.parametrize("code", [TQDM, ZIPPED, NOAM])
def test_what_once_crashed_is_checked(code: str) -> None:
    checked = check_source(HEAD + code, "train.py", ALL)

    assert (checked.findings, checked.rehearsed) == ([], 1)


def test_a_file_in_which_training_is_left_over_is_not_called_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "TOTAL", 300)
    body = "    optimizer.zero_grad()\n    for x in loader:\n        model(x).mean().backward()\n"
    many = "".join(
        f"def train_{n}(model, optimizer, loader):\n{body}        optimizer.step()\n"
        for n in range(40)
    )

    checked = check_source("import torch\n" + many, "many.py", ALL, fixes=False)

    (left,) = [one for one in checked.findings if one.rule == "GK001"]
    assert 0 < checked.rehearsed < checked.loops == 40
    assert f"{40 - checked.rehearsed} of its 40 training loops" in left.detail
