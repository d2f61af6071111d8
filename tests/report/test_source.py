"""Lines of the user's files, as reports show them."""

from pathlib import Path

import pytest

from gradkeeper.report.source import line_of


def test_a_name_is_read_anew_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(f"{name}()\n")

    monkeypatch.chdir(tmp_path / "first")
    assert line_of("train.py", 1) == "first()"
    monkeypatch.chdir(tmp_path / "second")
    assert line_of("train.py", 1) == "second()"
    monkeypatch.chdir(tmp_path)
    assert line_of("train.py", 1) is None
