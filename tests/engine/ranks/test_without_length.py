"""Loaders of which nobody knows how much is left: ranks ask each other before each micro-batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from gradkeeper.engine import Engine, LoaderError
from tests.engine.problems import Pair, distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import (
    KINDS,
    big_batches,
    credit_all,
    micro_batches_of,
    weights_of,
    wrapped,
)
from tests.engine.ranks.programs import Options, train_to_digest
from tests.engine.ranks.test_saved import check_every_cut, train_until_told

pytestmark = pytest.mark.filterwarnings("ignore:layer '1' normalises")

UNEVEN = [[5, 1, 4, 2, 7, 3], [2, 2, 9, 1]]


class Flow:
    """Starts anew as often as it is asked to."""

    def __init__(self, batches: list[Pair]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Pair]:
        yield from self._batches


def loader_of(rank: int, source: str) -> Any:
    batches = micro_batches_of(rank, UNEVEN)
    if source == "one has a length" and rank == 1:
        return batches
    return (one for one in batches) if source == "generator" else Flow(batches)


def trained(rank: int, kind: str, sync: Any, source: str, folder: str | None) -> list[Tensor]:
    model = wrapped(kind)
    engine = Engine(
        model, plain_sgd(model.parameters()), sync=sync, checkpoint=folder, progress=False
    )
    epochs = 1 if source == "generator" else 2
    for window in engine.windows(loader_of(rank, source), size=3, epochs=epochs):
        with window:
            credit_all(window, model)
        assert window.stepped
    return weights_of(model)


@pytest.mark.parametrize("sync", ["last", "every"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", ["flow", "one has a length", "generator"])
def test_they_are_read_in_step(two_ranks: Pool, kind: str, sync: str, source: str) -> None:
    epochs = 1 if source == "generator" else 2

    found = two_ranks.run(trained, kind, sync, source, None)

    assert all(distance(one, big_batches(UNEVEN, 3, epochs)) <= 1e-6 for one in found)


@pytest.mark.parametrize("sync", ["last", "every"])
@pytest.mark.parametrize("kind", KINDS)
def test_so_they_are_where_ranks_may_save(
    two_ranks: Pool, tmp_path: Path, kind: str, sync: str
) -> None:
    found = two_ranks.run(trained, kind, sync, "flow", str(tmp_path / "run"))

    assert all(distance(one, big_batches(UNEVEN, 3, 2)) <= 1e-6 for one in found)


def refusal(rank: int, source: str, folder: str | None) -> str:
    model = wrapped("ddp")
    engine = Engine(model, plain_sgd(model.parameters()), checkpoint=folder, progress=False)
    try:
        for window in engine.windows(loader_of(rank, source), size=3, epochs=2):
            with window:
                credit_all(window, model)
    except LoaderError as error:
        return str(error)
    return ""


def test_a_generator_is_not_kept(two_ranks: Pool, tmp_path: Path) -> None:
    told = two_ranks.run(refusal, "generator", str(tmp_path / "run"))

    assert all("can be read once only" in one for one in told), told


def test_a_generator_has_one_epoch(two_ranks: Pool) -> None:
    told = two_ranks.run(refusal, "generator", None)

    assert all("epoch 2 has no batches" in one for one in told), told


@pytest.mark.parametrize(("kind", "sync"), [("ddp", "last"), ("ddp", "every"), ("fsdp", "every")])
def test_a_run_cut_at_any_micro_step_ends_bit_for_bit_the_same(
    two_ranks: Pool, tmp_path: Path, kind: str, sync: str
) -> None:
    options = {"sampler": "flow", "sync": sync, "coupled": kind == "ddp"}

    saves = check_every_cut(two_ranks, kind, tmp_path, options, every=2)

    assert saves >= 20


@pytest.mark.parametrize("item", [18, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_while_a_loader_is_asked_stops_all_at_the_same_place(
    two_ranks: Pool, tmp_path: Path, kind: str, item: int
) -> None:
    """Rank 1 has run out by then. Item 18 is asked for between windows, 20 within one."""
    options: Options = {"sampler": "flow", "save_every": 1000, "epochs": 1}
    expected = two_ranks.run(train_to_digest, kind, str(tmp_path / "whole"), options)

    told = options | {"signal_at": item}
    ended = two_ranks.run(train_until_told, kind, str(tmp_path / "cut"), told)
    found = two_ranks.run(train_to_digest, kind, str(tmp_path / "cut"), options)

    assert ended == [(143, 1)] * 2
    assert found == [(True, digest) for _, digest in expected]
