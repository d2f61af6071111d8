"""A start that hangs is ended, with all that it started, and told of."""

import signal
from pathlib import Path

import pytest

from gradkeeper.prove import ProveError, bootstrap
from gradkeeper.prove.process import BOOTSTRAP, ENV, Ended, KillPlan, start
from gradkeeper.prove.proof import KilledRun, checked, failure
from gradkeeper.prove.working_copy import build, source_of


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("hanging")
    here = folder / "here"
    here.mkdir()
    command = ["sh", "-c", "echo waits for a lock; sleep 600; true"]
    place = build(source_of(command, here, [], folder), folder / "work")
    # On a busy machine a second may not be enough to say anything.
    for timeout in (1, 10, 100):
        ended = start(command, place, folder / f"start-{timeout}", KillPlan(), timeout=timeout)
        if ended.last_words():
            break
    return ended


def test_a_start_that_takes_too_long_is_ended(ended: Ended) -> None:
    assert ended.late is not None
    assert ended.code == -signal.SIGKILL


def test_what_hangs_is_told_with_its_last_words(ended: Ended) -> None:
    with pytest.raises(ProveError, match=r"(?s)not ended after \d+ seconds.*waits for a lock"):
        checked(ended)
    said = failure(KilledRun(starts=[ended], kills=[(3, 0)]))
    assert said is not None
    assert f"started again after kill 1, it has not ended after {ended.late} seconds" in said
    assert "waits for a lock" in said


def test_the_bootstrap_looks_for_the_folder_where_a_start_names_it() -> None:
    assert bootstrap.ENV == ENV
    assert Path(bootstrap.__file__) == BOOTSTRAP
