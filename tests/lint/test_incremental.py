"""What has not changed is not rehearsed again; what is said is what a fresh check says."""

import os
from pathlib import Path

import pytest

from gradkeeper.lint.check import check_files
from gradkeeper.lint.files import find
from gradkeeper.lint.incremental import Incremental
from gradkeeper.lint.program import Checked
from tests.lint.test_columns import STALE
from tests.server.test_server import CALLER, LOOP

MENDED = f"{STALE}    optimizer.zero_grad()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two programs, the second of two files, and a file that does not train."""
    (tmp_path / "alone.py").write_text(STALE)
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "main.py").write_text(CALLER)
    (tmp_path / "settings.py").write_text("rate = 0.1\n")
    return tmp_path


@pytest.fixture
def check(project: Path) -> Incremental:
    made = Incremental([str(project)])
    made.look_around()
    return made


def told(results: dict[str, Checked]) -> list[tuple[str, str, int]]:
    found = [one for checked in results.values() for one in checked.findings]
    return sorted((os.path.basename(one.site.file), one.rule, one.line) for one in found)


def from_scratch(project: Path) -> list[tuple[str, str, int]]:
    return told(dict(check_files(list(find([str(project)])))))


def test_it_says_what_a_fresh_check_says(check: Incremental, project: Path) -> None:
    assert told(check.check()) == from_scratch(project)
    assert told(check.check()) == [("alone.py", "GK101", 7), ("loop.py", "GK101", 4)]


def test_nothing_is_rehearsed_twice_unless_it_changed(check: Incremental, project: Path) -> None:
    check.check()
    assert check.rehearsed == 2
    check.check()
    assert check.rehearsed == 2

    (project / "alone.py").write_text(MENDED)

    assert told(check.check()) == [("loop.py", "GK101", 4)]
    assert check.rehearsed == 3


def test_what_is_held_counts_and_not_what_is_on_disk(check: Incremental, project: Path) -> None:
    path = str(project / "alone.py")
    check.held[path] = MENDED.encode()
    assert told(check.check([path])) == []

    del check.held[path]

    assert told(check.check([path])) == [("alone.py", "GK101", 7)]


def test_a_change_in_a_file_that_is_called_is_a_change_of_its_callers(
    check: Incremental, project: Path
) -> None:
    main = str(project / "main.py")
    assert told(check.check([main])) == [("loop.py", "GK101", 4)]

    (project / "loop.py").write_text(f"{LOOP}        optimizer.zero_grad()\n")

    assert told(check.check([main])) == []


def test_a_new_file_may_be_what_an_import_leads_to(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(CALLER)
    check = Incremental([str(tmp_path)])
    check.look_around()
    assert told(check.check()) == []

    (tmp_path / "loop.py").write_text(LOOP)
    check.look_around()

    assert told(check.check()) == from_scratch(tmp_path) == [("loop.py", "GK101", 4)]


def test_a_file_outside_of_the_folders_is_checked_with_what_it_imports(project: Path) -> None:
    check = Incremental([])

    assert told(check.check([str(project / "main.py")])) == [("loop.py", "GK101", 4)]


def test_a_file_that_is_gone_is_told_and_costs_no_other(check: Incremental, project: Path) -> None:
    check.check()

    (project / "alone.py").unlink()

    assert told(check.check([str(project / "alone.py")])) == [("alone.py", "GK000", 1)]
    assert ("loop.py", "GK101", 4) in told(check.check())


def test_what_does_not_parse_is_told_of_files_that_do_not_train(
    check: Incremental, project: Path
) -> None:
    (project / "settings.py").write_text("rate = \n")

    assert ("settings.py", "GK000", 1) in told(check.check())
