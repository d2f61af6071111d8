"""FSDP2 on a mesh of two dimensions (HSDP): groups of ranks shard, and each group is a copy."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from gradkeeper.engine import Engine, SetupError
from tests.engine.problems import distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import (
    big_batches,
    credit_all,
    micro_batches_of,
    weights_of,
    wrapped,
)
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


def counted(rank: int, sync: str | None, leave: int | None) -> tuple[list[Any], list[int]]:
    """Weights, and how often the copies were exchanged in each window."""
    model = wrapped("hsdp")
    engine = Engine(model, plain_sgd(model.parameters()), sync=sync, progress=False)  # type: ignore[arg-type]
    calls = [0]
    original = dist.all_reduce

    def counting(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        return original(*args, **options)

    dist.all_reduce = counting
    by_window = []
    try:
        for window in engine.windows(micro_batches_of(rank, [[2] * 8] * 4), size=4):
            before = calls[0]
            with window:
                for x, y in window:
                    window.backward(cross_entropy(model(x), y), weight=len(y))
                    if window.read == leave:
                        break
            by_window.append(calls[0] - before)
    finally:
        dist.all_reduce = original
    return weights_of(model), by_window


@pytest.mark.parametrize("leave", [None, 2])
def test_copies_can_wait_for_the_last_micro_batch(four_ranks: Pool, leave: int | None) -> None:
    every = four_ranks.run(counted, "every", leave)

    for (weights, calls), (expected, often) in zip(
        four_ranks.run(counted, "shards", leave), every, strict=True
    ):
        assert distance(weights, expected) <= 1e-6
        # Two layers: each once in a window, not once in each micro-batch.
        assert set(calls) == {2}
        assert set(often) == {2 * (leave or 4)}


def test_copies_that_waited_are_forgotten_with_their_window(four_ranks: Pool) -> None:
    for weights in four_ranks.run(after_a_fault):
        assert distance(weights, four_ranks.run(after_none)[0]) == 0


def after_a_fault(rank: int) -> list[Any]:
    model = wrapped("hsdp")
    engine = Engine(model, plain_sgd(model.parameters()), sync="shards", progress=False)
    share = micro_batches_of(rank, [[2] * 8] * 4)
    with suppress(ZeroDivisionError):
        for window in engine.windows(share, size=4):
            with window:
                for x, y in window:
                    window.backward(cross_entropy(model(x), y), weight=len(y))
                    if window.read == 2:
                        raise ZeroDivisionError
    return one_window(engine, model, share)


def after_none(rank: int) -> list[Any]:
    model = wrapped("hsdp")
    engine = Engine(model, plain_sgd(model.parameters()), sync="shards", progress=False)
    return one_window(engine, model, micro_batches_of(rank, [[2] * 8] * 4))


def one_window(engine: Engine, model: Any, share: Any) -> list[Any]:
    for window in engine.windows(share[:4], size=4):
        with window:
            credit_all(window, model)
    return weights_of(model)


def shards_refused(rank: int, kind: str) -> str:
    model = wrapped(kind)
    try:
        Engine(model, plain_sgd(model.parameters()), sync="shards")
    except SetupError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_who_has_no_copies_cannot_let_them_wait(two_ranks: Pool, kind: str) -> None:
    assert all(
        'sync="shards" is for FSDP2 on a mesh of two dimensions' in told
        for told in two_ranks.run(shards_refused, kind)
    )
