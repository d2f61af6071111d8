"""Which files belong together: who imports whom, by the names that imports hold."""

from pathlib import Path

from gradkeeper.lint.files import Sources, importers


def test_those_who_import_a_file_are_found_at_any_depth(tmp_path: Path) -> None:
    files = {
        "steps.py": "",
        "package/__init__.py": "from .inner import (\n    one,\n    steps,\n)\n",
        "script.py": "import os, package.other as other\n",
        "apart.py": "# from steps import x\nsteps = 1\n",
        "lone.py": "import torch\n",
    }
    (tmp_path / "package").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in files]

    found = importers(paths[0], paths)

    assert found == [str(tmp_path / "package/__init__.py"), str(tmp_path / "script.py")]


def test_sources_are_what_a_fix_would_leave(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old")

    sources = Sources({str(tmp_path / "a.py"): b"new"})

    assert sources.read(str(tmp_path / "." / "a.py")) == b"new"
    assert (tmp_path / "a.py").read_text() == "old"
