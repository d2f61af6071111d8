"""The tour of the package is true: its walks pass the files that it names, in that order."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.docs.walking import WALKS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide" / "inside.md"
PACKAGE = ROOT / "src" / "gradkeeper"
STEP = re.compile(r"^\d+\. `(\S+\.py)`", re.M)
FILE = re.compile(r"`([\w/]+\.py|[\w/]+/)`")


def told(walk: str) -> list[str]:
    """The files that the page names under the walk's heading."""
    found = re.search(rf"^### {walk}$(.*?)(?=^##|\Z)", PAGE.read_text(), re.M | re.S | re.I)
    return STEP.findall(found[1]) if found else []


def not_passed(files: Iterable[str], walk: Iterable[str]) -> list[str]:
    """Those that the walk does not come to, after all that are named before them."""
    rest = list(walk)
    missing = []
    for file in files:
        if file in rest:
            rest = rest[rest.index(file) :]
        else:
            missing.append(file)
    return missing


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    command = [sys.executable, "-m", "tests.docs.walking", str(tmp_path_factory.mktemp("walks"))]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_passes_the_files_that_the_page_names(
    walk: str, walks: dict[str, list[str]]
) -> None:
    assert len(told(walk)) >= 8
    assert not_passed(told(walk), walks[walk]) == []


def test_what_the_page_names_is_there() -> None:
    named = FILE.findall(PAGE.read_text())

    assert [name for name in named if not is_there(name)] == []


def is_there(name: str) -> bool:
    return any((folder / name).exists() for folder in (PACKAGE, ROOT))


def test_a_walk_that_goes_another_way_is_noticed() -> None:
    walk = ["cli/check.py", "lint/check.py", "model/ledger.py", "lint/check.py"]

    assert not_passed(["cli/check.py", "model/ledger.py", "lint/check.py"], walk) == []
    assert not_passed(["lint/check.py", "cli/check.py"], walk) == ["cli/check.py"]
    assert not_passed(["cli/check.py", "lint/gone.py"], walk) == ["lint/gone.py"]
