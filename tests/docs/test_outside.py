"""bench/outside.py counts what it should, on a folder that only looks like the real ones."""

import json
from pathlib import Path

import pytest

from bench import outside
from tests.cli.test_also import STALE

MENDED = f"{STALE}    optimizer.zero_grad()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scripts = tmp_path / outside.TRAINCHECK / outside.SCRIPTS
    for name, (_, wrong, right) in outside.ERRORS.items():
        (scripts / name).mkdir(parents=True)
        (scripts / name / wrong).write_text(STALE)
        (scripts / name / right).write_text(MENDED)
    work = tmp_path / outside.TRAINCHECK / "fp_rate" / "workloads"
    for name in ("mnist", "gan", "trace_gan"):
        (work / name).mkdir(parents=True)
        (work / name / "main.py").write_text(STALE if name == "gan" else MENDED)
    truth = tmp_path / outside.SPECDETECT / outside.TRUTH
    case = truth / "CodeSmile-Validation" / "experimental_kits" / "1" / "files" / "EvalID_99"
    case.mkdir(parents=True)
    (case / "a.py").write_text(STALE)
    rows = ["R9;True_Positive;{};./files/EvalID_99/a.py;{};x;y"] * 3
    kinds = [("True_Positive", 6), ("True_Positive", 7), ("True_Negative", 8)]
    lines = [row.format(*kind) for row, kind in zip(rows, kinds, strict=True)]
    head = "Rule_ID;Old_Type;New_Type;File;Line;Description;Code_Context"
    (truth / "GT_CodeSmile_Reviewed.csv").write_text("\n".join([head, *lines]))
    tools = tmp_path / outside.SPECDETECT / "Evaluation" / "Comparison_Other_Tools"
    tools.mkdir(parents=True)
    (tools / "Per-Rule_F1_Score_Table_Per_Approach.csv").write_text(
        "Rule;A;B\nR8;1;1\nR9;1.0;0.5\n"
    )
    data = tmp_path / outside.QUESTIONS / "data" / "processed"
    data.mkdir(parents=True)
    asked = [f"Why?\n\n```\n{code}\n```" for code in (STALE, MENDED, "x.backward(.step(")]
    (data / "dataset.jsonl").write_text("\n".join(json.dumps({"input": one}) for one in asked))
    return tmp_path


def test_all_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outside.main([str(folder)]) == 0

    said = capsys.readouterr().out
    assert said.count("| GK101 (line 7) | nothing |") == len(outside.ERRORS)
    assert "2 correct programs: 2 training loops, 2 rehearsed to a step;\ngan: GK101" in said
    assert "| EvalID_99/a.py | 6, 7 | GK101 (line 7) | nothing is ever zeroed" in said
    assert "Published F1: A 1.0, B 0.5." in said
    assert "3 loops in questions;\n2 can be read as Python, 2 rehearsed to a step." in said
    assert "question 1: GK101 (line 7): not read yet" in said


def test_planted_faults_are_counted_by_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [name.replace(" ", "_") for name in outside.PLANTED]
    for folder in ("clean", *folders):
        place = tmp_path / outside.MUTANTS / folder / "owner+name"
        place.mkdir(parents=True)
        (place / "a.py").write_text(MENDED)
    (tmp_path / outside.MUTANTS / "zero_grad_left_out" / "owner+name" / "a.py").write_text(STALE)

    assert outside.main([str(tmp_path)]) == 0

    said = capsys.readouterr().out
    assert "Faults planted in clean files of 1 public repositories" in said
    assert "| zero_grad left out | 1 | 1 (100%) |" in said
    assert "| step left out | 1 | 0 (0%) |" in said
    assert "| all | 7 | 1 (14%) |" in said


def test_a_folder_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert outside.main([]) == 2
    assert "usage: scripts/bench outside FOLDER" in capsys.readouterr().err


def test_what_is_kept_was_read() -> None:
    kept = (Path(__file__).parents[2] / "docs" / "bench" / "outside.md").read_text()

    assert "not read yet" not in kept
