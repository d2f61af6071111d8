"""Real scripts, really killed. A start costs seconds, so most of these are slow."""

import sys
from pathlib import Path

import pytest

from gradkeeper.prove import ProveError
from gradkeeper.prove.proof import Proof, prove
from gradkeeper.prove.verdict import as_text
from gradkeeper.testing import assert_resume_exact
from tests.prove.recipe import RECIPE

KILLED_LATE = 6  # a seed that kills after the first save


def proof_of(folder: Path, *words: str, kills: int = 1, script: str = RECIPE) -> Proof:
    (folder / "train.py").write_text(script)
    command = [sys.executable, "train.py", *words]
    return prove(command, kills=kills, seed=KILLED_LATE, cwd=folder)


def causes(proof: Proof) -> list[str]:
    assert proof.parting is not None
    return [cause.partition(":")[0] for cause in proof.parting.causes]


def test_a_script_that_saves_all_is_exact_and_its_folder_stays_as_it_was(tmp_path: Path) -> None:
    found = proof_of(tmp_path, "mid-window")

    assert found.exact, as_text(found)
    assert found.resumed
    assert (found.steps, found.backwards, len(found.kills)) == (8, 16, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_what_was_not_restored_is_named(tmp_path: Path) -> None:
    found = proof_of(tmp_path, "no-generator")

    assert not found.exact
    assert causes(found) == ["random numbers"]
    assert "model.0.weight: 32 of 32 elements, by at most" in as_text(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("no-position",), "order of batches"),
        (("mid-window", "no-gradients"), "pending gradients"),
        (("no-optimizer",), "optimizer"),
    ],
)
def test_each_thing_that_is_left_out_has_its_own_word(
    tmp_path: Path, words: tuple[str, ...], cause: str
) -> None:
    found = proof_of(tmp_path, *words)

    assert causes(found) == [cause]


@pytest.mark.slow
def test_a_script_that_saves_nothing_proves_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "train.py").write_text(RECIPE.replace("            save()", "            pass"))

    found = prove([sys.executable, "train.py"], kills=1, cwd=tmp_path, say=said.append)

    assert "it left no file to go on from" in said[1]
    assert (found.equal, found.resumed) == (True, False)
    assert "by the last kill it had written no file: does it save" in as_text(found)


@pytest.mark.slow
def test_a_checkpoint_within_the_first_window_is_one_to_go_on_from(tmp_path: Path) -> None:
    """Its weights are those of the beginning."""
    first = RECIPE.replace("epoch < 2", "epoch < 1").replace("(32", "(8")

    found = proof_of(tmp_path, "mid-window", script=first)

    assert found.exact, as_text(found)
    assert "went on in step 1" in as_text(found)


ENGINE = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
from gradkeeper import Engine

torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())
engine = Engine(model, optimizer, checkpoint="run", save_every=int(sys.argv[1]), progress=False)
for window in engine.windows(DataLoader(data, batch_size=2, shuffle=True), size=2):
    with window:
        for x, y in window:
            window.backward(torch.nn.functional.mse_loss(model(x), y))
"""


@pytest.mark.slow
def test_an_engine_that_is_not_asked_to_resume_refuses_to_save_over_the_other_run(
    tmp_path: Path,
) -> None:
    found = proof_of(tmp_path, "1", script=ENGINE)

    assert not found.exact
    assert found.failure is not None
    assert "resume()" in found.failure


@pytest.mark.slow
def test_an_engine_killed_before_its_first_save_has_resumed_nothing(tmp_path: Path) -> None:
    found = proof_of(tmp_path, "100", script=ENGINE)

    assert (found.equal, found.resumed) == (True, False)
    assert "by the last kill it had written no file" in as_text(found)


@pytest.mark.slow
def test_a_script_that_fails_when_it_is_restarted_is_not_exact(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RECIPE)
    command = [sys.executable, "train.py", "fails"]

    with pytest.raises(AssertionError, match="cannot read the checkpoint"):
        assert_resume_exact(command, kills=1, seed=KILLED_LATE, cwd=tmp_path)


@pytest.mark.slow
def test_a_script_that_does_not_repeat_itself_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ProveError, match="not deterministic by itself"):
        proof_of(tmp_path, "unseeded")


@pytest.mark.slow
def test_more_kills_than_there_are_places_kill_at_every_place(tmp_path: Path) -> None:
    short = RECIPE.replace("epoch < 2", "epoch < 1").replace("(32", "(16")

    found = proof_of(tmp_path, kills=99, script=short)

    assert found.exact
    assert len(found.kills) == found.steps + found.backwards
    assert "6 of 99 kills" in as_text(found)


@pytest.mark.slow
def test_a_checkpoint_at_an_absolute_path_is_cleared_between_the_runs(tmp_path: Path) -> None:
    absolute = RECIPE.replace('"state.pt"', repr(str(tmp_path / "state.pt")))

    found = proof_of(tmp_path, script=absolute)

    assert found.exact
    assert found.resumed
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.slow
def test_a_checkpoint_elsewhere_that_the_second_run_finds_is_noticed(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    outside = RECIPE.replace('"state.pt"', repr(str(elsewhere / "state.pt")))

    with pytest.raises(ProveError, match="did not start from the beginning"):
        proof_of(here, script=outside)
