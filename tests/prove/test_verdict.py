"""The verdict in words, of proofs written by hand."""

import json
from dataclasses import replace

import pytest

from gradkeeper.prove.proof import Kill, Proof
from gradkeeper.prove.verdict import as_json, as_text

EXACT = Proof(("python", "train.py"), 0, 2, 8, 16, (Kill((3, 1), 0, anew=True), Kill((5, 0), 4)))
ANEW = replace(EXACT, kills=(Kill((3, 1), 0, anew=True), Kill((5, 0), 0, anew=True)))


def test_one_restart_that_went_on_is_enough() -> None:
    assert EXACT.exact
    assert as_text(EXACT).startswith("python train.py: exact, the weights are equal bit for bit\n")
    assert "kill 1: in step 4, after micro-step 1; started from the beginning" in as_text(EXACT)
    assert "kill 2: after step 5; went on from step 4" in as_text(EXACT)


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ((), "by the last kill it had written no file: does it save before it ends?"),
        (("a.pt",), "by the last kill it had written a.pt: if that is a checkpoint, load it"),
        (("a.pt", "b", "c"), "by the last kill it had written a.pt and 2 more: if"),
    ],
)
def test_restarts_that_all_began_anew_prove_nothing(left: tuple[str, ...], said: str) -> None:
    proof = replace(ANEW, left=left)

    assert not proof.exact
    assert as_text(proof).startswith("python train.py: nothing was resumed, so nothing is proven\n")
    assert said in as_text(proof)
    told = json.loads(as_json(proof))
    assert (told["exact"], told["resumed"], told["differences"]) == (False, False, [])


def test_a_run_that_ended_before_it_could_be_killed_proves_nothing() -> None:
    proof = replace(EXACT, kills=())

    assert not proof.exact
    assert "nothing was resumed, so nothing is proven" in as_text(proof)
    assert "0 of 2 kills: there was nothing left to kill" in as_text(proof)


def test_a_restart_that_fails_is_no_matter_of_proof() -> None:
    proof = replace(ANEW, failure="started again after kill 1, it fails")

    assert not proof.equal
    assert as_text(proof).startswith("python train.py: not resumed\n")
