"""What one rank does wrong: all decide alike, or all raise; nobody waits for ever."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

from gradkeeper.engine import Engine, NonFiniteError, RankError
from gradkeeper.model import Severity, audit
from gradkeeper.model import events as ev
from gradkeeper.rules import ALL
from tests.engine.problems import Pair, classifier, distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import KINDS, micro_batches_of, weights_of, wrapped

EVEN = [[3] * 6, [2] * 6]


def engine_for(kind: str, **options: Any) -> tuple[nn.Module, Engine]:
    model = wrapped(kind)
    return model, Engine(model, plain_sgd(model.parameters()), progress=False, **options)


class Share(Dataset[Pair]):
    """A rank's micro-batches, one of which it fails on."""

    def __init__(self, rank: int, bad: int | None) -> None:
        self._batches = micro_batches_of(rank, EVEN)
        self._bad = bad

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, place: int) -> Pair:
        if place == self._bad:
            raise ValueError("bad batch")
        return self._batches[place]


def raising(
    rank: int, kind: str, sync: str, moment: str, folder: str | None = None
) -> dict[str, Any]:
    """Rank 1 raises in its second window, catches it outside, and goes on."""
    model, engine = engine_for(kind, sync=sync, checkpoint=folder)
    caught, reasons = [], []
    bad = {"loader": 2, "loader later": 3}.get(moment) if rank == 1 else None
    loader = DataLoader(Share(rank, bad), batch_size=None)
    for number, window in enumerate(engine.windows(loader, size=2)):
        faulty = rank == 1 and number == 1
        before = weights_of(model)
        try:
            with window:
                for place, (x, y) in enumerate(window):
                    if faulty and (moment, place) in (("before", 0), ("second", 1)):
                        raise ValueError("bad batch")
                    loss = cross_entropy(model(x), y)
                    if faulty and moment == "forward" and place == 1:
                        raise ValueError("bad batch")
                    window.backward(loss, weight=len(y))
                if faulty and moment == "after":
                    raise ValueError("bad batch")
        except (ValueError, RankError) as error:
            caught.append(f"{type(error).__name__}: {error}")
        reasons.append(window.reason)
        if not window.stepped:
            assert all(torch.equal(a, b) for a, b in zip(before, weights_of(model), strict=True))
            assert not any(p.grad is not None for p in model.parameters())
    found = audit(engine.tape, ALL)
    return {
        "caught": caught,
        "reasons": reasons,
        "weights": weights_of(model),
        "findings": [(one.rule, one.message) for one in found if one.severity is Severity.ERROR],
        "digests": [one.ranks for one in engine.tape if isinstance(one, ev.Digest)],
    }


EARLY = [
    ("ddp", "last", "before"),
    ("ddp", "last", "second"),
    ("ddp", "last", "forward"),
    ("ddp", "last", "loader"),
    ("ddp", "last", "loader later"),
    ("ddp", "every", "before"),
    ("ddp", "every", "loader"),
    ("fsdp", "last", "before"),
    ("fsdp", "every", "before"),
    ("fsdp", "every", "loader"),
]
LATE = [
    ("ddp", "every", "second"),
    ("ddp", "every", "forward"),
    ("ddp", "every", "loader later"),
    ("ddp", "every", "after"),
    ("fsdp", "every", "forward"),
    ("fsdp", "last", "forward"),
    ("fsdp", "every", "second"),
    ("fsdp", "every", "loader later"),
    ("fsdp", "every", "after"),
]


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize(("kind", "sync", "moment"), EARLY)
def test_an_exception_before_the_first_exchange_discards_the_window_on_all_ranks(
    two_ranks: Pool, tmp_path: Path, kind: str, sync: str, moment: str, saves: bool
) -> None:
    folder = str(tmp_path / "run") if saves else None

    zero, one = two_ranks.run(raising, kind, sync, moment, folder)

    assert one["caught"] == ["ValueError: bad batch"]
    assert zero["caught"] == []
    assert one["reasons"][:3] == [None, "ValueError left the block", None]
    assert zero["reasons"][1].startswith("rank 1 raised ValueError: bad batch (")
    assert "test_faults.py" in zero["reasons"][1]
    assert all(torch.equal(a, b) for a, b in zip(zero["weights"], one["weights"], strict=True))
    assert {rule for rule, _ in zero["findings"]} == {"GK503"}
    assert "rank 1 raised an exception" in zero["findings"][0][1]


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize(("kind", "sync", "moment"), LATE)
def test_a_later_exception_makes_all_raise(
    two_ranks: Pool, tmp_path: Path, kind: str, sync: str, moment: str, saves: bool
) -> None:
    folder = str(tmp_path / "run") if saves else None

    zero, one = two_ranks.run(raising, kind, sync, moment, folder)

    assert one["caught"] == ["ValueError: bad batch"]
    assert len(zero["caught"]) == 1
    assert "RankError: rank 1 raised ValueError: bad batch" in zero["caught"][0]
    assert all(torch.equal(a, b) for a, b in zip(zero["weights"], one["weights"], strict=True))


def raising_at_once(rank: int, kind: str) -> str | None:
    """Between the first forward of the run and its backward."""
    model, engine = engine_for(kind)
    try:
        for window in engine.windows(micro_batches_of(rank, EVEN), size=2):
            with window:
                for x, y in window:
                    loss = cross_entropy(model(x), y)
                    if rank == 1:
                        raise ValueError("bad batch")
                    window.backward(loss, weight=len(y))
            return window.reason
    except (ValueError, RankError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_in_the_first_micro_batch_is_told_at_once(two_ranks: Pool, kind: str) -> None:
    zero, one = two_ranks.run(raising_at_once, kind)

    assert one == "bad batch"
    assert zero.startswith("rank 1 raised ValueError: bad batch (")


def poisoned(rank: int, kind: str, on_nonfinite: str) -> list[Any]:
    model, engine = engine_for(kind, on_nonfinite=on_nonfinite)
    told: list[str | None] = []
    for number, window in enumerate(engine.windows(micro_batches_of(rank, EVEN), size=2)):
        try:
            with window:
                for x, y in window:
                    factor = float("nan") if rank == 1 and number == 1 else 1.0
                    window.backward(cross_entropy(model(x), y) * factor, weight=len(y))
        except NonFiniteError as error:
            told.append(str(error))
        told.append(window.reason)
    return [told, weights_of(model)]


@pytest.mark.parametrize("on_nonfinite", ["skip", "raise"])
@pytest.mark.parametrize("kind", KINDS)
def test_nan_on_one_rank_is_decided_alike(two_ranks: Pool, kind: str, on_nonfinite: str) -> None:
    (zero, weights), (one, others) = two_ranks.run(poisoned, kind, on_nonfinite)

    for told in (zero, one):
        assert len(told) == (3 if on_nonfinite == "skip" else 4)
        assert told[0] is told[-1] is None
        assert "NaN or inf in the gradient" in told[1]
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


def worthless(
    rank: int, kind: str, sync: str, places: list[int], left_out: bool = False
) -> list[Tensor]:
    """NaN losses at weight 0 or left out altogether, whatever micro-batch they fall on."""
    model, engine = engine_for(kind, sync=sync)
    for window in engine.windows(micro_batches_of(rank, EVEN), size=3):
        with window:
            for place, (x, y) in enumerate(window):
                bad = rank == 1 and place in places
                loss = cross_entropy(model(x * float("nan") if bad else x), y)
                if bad and left_out:
                    continue
                window.backward(loss, weight=0 if bad else len(y))
        assert window.stepped
    return weights_of(model)


@pytest.mark.parametrize("sync", ["last", "every"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("places", [[2], [0, 1, 2]])
@pytest.mark.parametrize("left_out", [False, True])
def test_a_loss_without_weight_or_left_out_contributes_nothing_even_if_it_is_nan(
    two_ranks: Pool, kind: str, sync: str, places: list[int], left_out: bool
) -> None:
    model = classifier()
    optimizer = plain_sgd(model.parameters())
    for start in (0, 3):
        kept = [
            one
            for place, one in enumerate(micro_batches_of(1, EVEN)[start : start + 3])
            if place not in places
        ]
        parts = micro_batches_of(0, EVEN)[start : start + 3] + kept
        optimizer.zero_grad()
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        cross_entropy(model(x), y).backward()
        optimizer.step()

    found = two_ranks.run(worthless, kind, sync, places, left_out)

    assert all(distance(one, weights_of(model)) <= 1e-6 for one in found)


# Ranks that go away, in groups of their own


@pytest.fixture
def brief_ranks() -> Iterator[Pool]:
    pool = Pool(2, timeout=6)
    yield pool
    pool.end()


def leaving(rank: int, kind: str, how: str) -> tuple[str, float]:
    model, engine = engine_for(kind)
    began = time.monotonic()
    try:
        for number, window in enumerate(engine.windows(micro_batches_of(rank, EVEN), size=2)):
            if rank == 1 and number == 1 and how == "loop":
                break
            with window:
                for x, y in window:
                    loss = cross_entropy(model(x), y)
                    if rank == 1 and number == 1 and how == "exit":
                        os._exit(3)
                    window.backward(loss, weight=len(y))
    except RankError as error:
        return str(error), time.monotonic() - began
    if rank == 1:
        time.sleep(8)  # it lives on, and never comes back
    return "ended", time.monotonic() - began


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("ddp", "loop"),
        ("fsdp", "exit"),
        pytest.param("ddp", "exit", marks=pytest.mark.slow),
        pytest.param("fsdp", "loop", marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_leaves_is_told_to_the_others_within_the_timeout(
    brief_ranks: Pool, kind: str, how: str
) -> None:
    told, _ = brief_ranks.run(leaving, kind, how)[0]

    assert "the ranks lost each other" in told
    if how == "loop":
        assert "rank 1 left its loop" in told
        assert "test_faults.py" in told


def tearing(rank: int, kind: str) -> list[str]:
    """A backward of rank 1 fails half-way, while rank 0 is in its own."""
    model, engine = engine_for(kind)
    told = []
    for number, window in enumerate(engine.windows(micro_batches_of(rank, EVEN), size=2)):
        try:
            with window:
                for place, (x, y) in enumerate(window):
                    if rank == 1 and number == 1 and place == 1:
                        x = Fragile.apply(x.requires_grad_())  # type: ignore[no-untyped-call]
                    window.backward(cross_entropy(model(x), y), weight=len(y))
        except (RankError, MemoryError) as error:
            told.append(f"{type(error).__name__}: {error}")
            break
    with pytest.raises(RankError, match="stopped earlier"):
        engine.window().__enter__()
    return told


class Fragile(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise MemoryError("no room")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_backward_that_fails_while_others_exchange_makes_all_raise(
    brief_ranks: Pool, kind: str
) -> None:
    zero, one = brief_ranks.run(tearing, kind)

    assert one == ["MemoryError: no room"]
    assert zero[0].startswith("RankError: the ranks lost each other: rank 1 raised MemoryError")
