import os
from pathlib import Path

import pytest

from gradkeeper.prove import ProveError
from gradkeeper.prove.working_copy import build, source_of, turned


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "train.py").write_text("pass")
    (folder / "data" / "rows.txt").write_text("1 2 3")
    return folder


def test_what_a_run_writes_into_its_copy_does_not_reach_the_folder(project: Path) -> None:
    source = source_of(["python", "train.py"], project, [], project / "session")

    place = build(source, project / "session" / "one")
    (place.cwd / "data" / "rows.txt").write_text("changed")

    assert (project / "data" / "rows.txt").read_text() == "1 2 3"
    assert not (place.cwd / "session").exists()


def test_what_is_shared_is_linked(project: Path, tmp_path: Path) -> None:
    source = source_of(["python", "train.py"], project, ["data"], tmp_path)

    place = build(source, tmp_path / "one")

    assert (place.cwd / "data").is_symlink()
    with pytest.raises(ProveError, match="no such file or folder"):
        source_of(["python", "train.py"], project, ["nowhere"], tmp_path)


def test_a_folder_that_is_too_large_asks_what_to_share(project: Path, tmp_path: Path) -> None:
    with (project / "data" / "large").open("wb") as stream:
        os.truncate(stream.fileno(), 3 * 10**9)

    with pytest.raises(ProveError, match="--share data"):
        source_of(["python", "train.py"], project, [], tmp_path)
    source_of(["python", "train.py"], project, ["data"], tmp_path)


def test_paths_in_the_arguments_are_turned_to_the_copy(project: Path, tmp_path: Path) -> None:
    place = build(source_of(["python", "train.py"], project, [], tmp_path), tmp_path / "one")

    assert turned(f"--out={project}/runs", place) == f"--out={place.cwd}/runs"
    assert turned(str(tmp_path / "new"), place).startswith(str(tmp_path / "one"))
    for word in ("runs", "--lr=3", str(project.parent), "--lr"):
        assert turned(word, place) == word


def test_a_script_from_elsewhere_brings_its_own_folder(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    script = str(project / "train.py")

    place = build(source_of(["python", script], other, [], tmp_path), tmp_path / "one")

    assert turned(script, place) == str(place.copies[project] / "train.py")
