"""Each folder's __init__ names every file in it, in reading order, with one line each."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "gradkeeper"
LINE = re.compile(r"^(\w+) {2,}\S.*$", re.M)


def packages() -> list[str]:
    found = (path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py"))
    return sorted("" if str(one) == "." else one.as_posix() for one in found)


def named(text: str) -> list[str]:
    """What a map names, in its order."""
    return LINE.findall(ast.get_docstring(ast.parse(text)) or "")


def held(folder: Path) -> list[str]:
    files = [path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")]
    folders = [path.parent.name for path in folder.glob("*/__init__.py")]
    return sorted(files + folders)


@pytest.mark.parametrize("package", packages())
def test_a_map_names_every_file_once_and_nothing_else(package: str) -> None:
    folder = PACKAGE / package

    assert sorted(named((folder / "__init__.py").read_text())) == held(folder)


def test_a_file_that_is_not_on_the_map_would_be_noticed() -> None:
    text = '"""A folder.\n\none  is here\ntwo  as well\n"""'

    assert named(text) == ["one", "two"]
