"""FSDP2 on a mesh of two dimensions (HSDP): groups of ranks shard, and each group is a copy."""

from pathlib import Path

import pytest
import torch

from tests.engine.problems import distance
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import big_batches
from tests.engine.ranks.programs import train
from tests.engine.ranks.test_exact import FOUR, SYNCS, trained_by, trained_on_share
from tests.engine.ranks.test_resharded import OPTIONS, refusal
from tests.engine.ranks.test_saved import check_every_cut, cut_after


@pytest.mark.parametrize("sync", SYNCS)
def test_uneven_ranks_are_one_big_batch(four_ranks: Pool, sync: str) -> None:
    expected = big_batches(FOUR, 2, epochs=2)

    found = four_ranks.run(trained_by, "hsdp", FOUR, 2, sync)

    assert all(distance(one, expected) <= 1e-6 for one in found)


def test_loss_norm_and_clipping_are_those_of_one_process(four_ranks: Pool) -> None:
    weights, told = trained_on_share(0, "plain", 1)

    found = four_ranks.run(trained_on_share, "hsdp", 4)

    for others, told_there in found:
        assert distance(others, weights) <= 1e-6
        torch.testing.assert_close(told_there, told, atol=1e-6, rtol=1e-6)


def test_a_run_that_was_cut_ends_bit_for_bit_the_same(four_ranks: Pool, tmp_path: Path) -> None:
    check_every_cut(four_ranks, "hsdp", tmp_path, {"sampler": "uneven", "epochs": 1}, every=3)


def test_four_ranks_go_on_as_two(two_ranks: Pool, four_ranks: Pool, tmp_path: Path) -> None:
    whole = four_ranks.run(train, "hsdp", str(tmp_path / "four"), OPTIONS | {"size": 1})

    cut = cut_after(tmp_path / "four", 3, tmp_path / "cut")
    found = two_ranks.run(train, "hsdp", str(cut), OPTIONS | {"size": 2})

    for result in found:
        assert result["resumed"]
        torch.testing.assert_close(result["weights"], whole[0]["weights"], atol=1e-5, rtol=1e-5)


def test_a_mesh_of_one_dimension_does_not_go_on_from_it(four_ranks: Pool, tmp_path: Path) -> None:
    four_ranks.run(train, "hsdp", str(tmp_path / "run"), OPTIONS | {"size": 1, "epochs": 1})

    told = four_ranks.run(refusal, "fsdp", str(tmp_path / "run"), OPTIONS | {"size": 1})

    assert all("was sharded over a mesh of 2 dimensions" in one for one in told), told
