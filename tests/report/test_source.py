"""Lines of the user's files, as reports show them."""

from pathlib import Path

import pytest

from gradkeeper.report.source import line_of, lines_in


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


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"# coding: latin-1\n# \xe9\nstep()\n", ("# \xe9", "step()")),
        (b"# neither\n# \xe9\nstep()\n", ("# \ufffd", "step()")),
        (b"# coding: none-such\n# \xe9\nstep()\n", ("# \ufffd", "step()")),
        (b"\xef\xbb\xbf# marked\n\nstep()\n", ("", "step()")),
        (b"# a form feed\n\x0c\nstep()\n", ("\x0c", "step()")),
    ],
)
def test_lines_are_those_of_python_in_any_encoding(raw: bytes, shown: tuple[str, str]) -> None:
    assert lines_in(raw)[1:3] == shown
    assert lines_in(raw)[0].startswith("#")
