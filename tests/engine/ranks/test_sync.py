"""When ranks exchange gradients, counted by a hook of the test's own."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from gradkeeper.engine import Engine
from gradkeeper.model import events as ev
from tests.engine.problems import classifier, distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import (
    big_batches,
    credit_all,
    micro_batches_of,
    weights_of,
    wrapped,
)

EVEN = [[3] * 6, [2] * 6]


class Exchanges:
    """Counts the buckets that DDP exchanges; the model is small enough to have one."""

    def __init__(self, model: nn.Module) -> None:
        self.count = 0
        assert isinstance(model, DistributedDataParallel)
        model.register_comm_hook(None, self.hook)

    def hook(
        self,
        state: Any,
        bucket: dist.GradBucket,  # type: ignore[name-defined]
    ) -> torch.futures.Future[Tensor]:
        self.count += 1
        return allreduce_hook(dist.group.WORLD, bucket)  # type: ignore[arg-type]


def counted(rank: int, sync: str | None, size: int) -> list[int]:
    model = wrapped("ddp")
    exchanges = Exchanges(model)
    engine = Engine(model, plain_sgd(model.parameters()), progress=False, sync=sync)  # type: ignore[arg-type]
    seen = []
    for window in engine.windows(micro_batches_of(rank, EVEN), size=size):
        with window:
            credit_all(window, model)
        seen.append(exchanges.count)
        exchanges.count = 0
    return seen


@pytest.mark.parametrize(
    ("sync", "expected"), [(None, [1, 1]), ("last", [1, 1]), ("every", [4, 2])]
)
def test_ddp_exchanges_as_often_as_it_was_told(
    two_ranks: Pool, sync: str | None, expected: list[int]
) -> None:
    assert two_ranks.run(counted, sync, 4) == [expected] * 2


def fsdp_reductions(rank: int, sync: str | None) -> list[bool]:
    """After each backward, whether the shards have gradients."""
    reduced = []
    model = wrapped("fsdp")
    engine = Engine(model, plain_sgd(model.parameters()), progress=False, sync=sync)  # type: ignore[arg-type]
    for window in engine.windows(micro_batches_of(rank, EVEN), size=3):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y), weight=len(y))
                held = [p.grad is not None for p in model.parameters()]
                assert len(set(held)) == 1
                reduced.append(held[0])
    return reduced


@pytest.mark.parametrize(
    ("sync", "reduced"),
    [(None, [True, True, True]), ("every", [True, True, True]), ("last", [False, False, True])],
)
def test_fsdp_reduces_into_its_shards_as_it_was_told(
    two_ranks: Pool, sync: str | None, reduced: list[bool]
) -> None:
    found = two_ranks.run(fsdp_reductions, sync)

    assert found == [reduced * 2] * 2


def two_losses(rank: int) -> list[Tensor]:
    model = wrapped("ddp")
    engine = Engine(model, plain_sgd(model.parameters()), progress=False)
    for window in engine.windows(micro_batches_of(rank, EVEN), size=3):
        with window:
            for x, y in window:
                scores = model(x)
                window.backward(cross_entropy(scores, y), weight=len(y), retain_graph=True)
                window.backward(scores.square().mean(), counts=False)
    assert sum(isinstance(event, ev.Reduce) for event in engine.tape) == 2
    return weights_of(model)


def test_a_second_loss_of_one_forward_is_exchanged_at_close(two_ranks: Pool) -> None:
    whole = classifier()
    optimizer = plain_sgd(whole.parameters())
    for start in (0, 3):
        parts = [p for r in range(2) for p in micro_batches_of(r, EVEN)[start : start + 3]]
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        optimizer.zero_grad()
        scores = whole(x)
        (cross_entropy(scores, y) + scores.square().mean()).backward()
        optimizer.step()

    found = two_ranks.run(two_losses)

    assert all(distance(one, weights_of(whole)) <= 1e-6 for one in found)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def breaking(rank: int, kind: str, sync: str, stops: list[int | None]) -> list[Any]:
    model = wrapped(kind)
    engine = Engine(model, plain_sgd(model.parameters()), progress=False, sync=sync)  # type: ignore[arg-type]
    reads = []
    for window in engine.windows(micro_batches_of(rank, EVEN), size=4):
        with window:
            for place, (x, y) in enumerate(window, start=1):
                window.backward(cross_entropy(model(x), y), weight=len(y))
                if place == stops[rank]:
                    break
        reads.append(window.read)
        assert window.stepped
    return [reads, weights_of(model), float(window.weight)]


@pytest.mark.parametrize("sync", ["last", "every"])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_break_on_all_ranks_loses_nothing(two_ranks: Pool, kind: str, sync: str) -> None:
    expected = big_batches(EVEN, 2)

    found = two_ranks.run(breaking, kind, sync, [2, 2])

    for reads, weights, _ in found:
        assert reads == [2, 2, 2]
        assert distance(weights, expected) <= 1e-6


@pytest.mark.parametrize("sync", ["last", "every"])
def test_a_break_on_one_rank_of_ddp_is_exact_too(two_ranks: Pool, sync: str) -> None:
    found = two_ranks.run(breaking, "ddp", sync, [None, 2])

    # Rank 0 runs out first, and is handed its last micro-batch again until rank 1 has ended too.
    assert found[0][0] == [4, 4, 2]
    assert found[1][0] == [2, 2, 2]
    assert all(torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True))
    whole = classifier()
    optimizer = plain_sgd(whole.parameters())
    shares = [micro_batches_of(rank, EVEN) for rank in range(2)]
    for first, second in (((0, 4), (0, 2)), ((4, 6), (2, 4)), ((6, 6), (4, 6))):
        parts = shares[0][slice(*first)] + shares[1][slice(*second)]
        optimizer.zero_grad()
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        cross_entropy(whole(x), y).backward()
        optimizer.step()
    assert distance(found[0][1], weights_of(whole)) <= 1e-6


@pytest.mark.parametrize("sync", ["last", "every"])
def test_a_break_on_one_rank_of_fsdp_ends_the_window_of_all(two_ranks: Pool, sync: str) -> None:
    found = two_ranks.run(breaking, "fsdp", sync, [None, 2])

    assert [one[0] for one in found] == [[2, 2, 2]] * 2
    assert distance(found[0][1], big_batches(EVEN, 2)) <= 1e-6


def own_batches(rank: int, kind: str, sync: str | None) -> list[Tensor]:
    model = wrapped(kind)
    engine = Engine(model, plain_sgd(model.parameters()), progress=False, sync=sync)  # type: ignore[arg-type]
    for start in (0, 3):
        with engine.window() as window:
            for x, y in micro_batches_of(rank, EVEN)[start : start + 3]:
                window.backward(cross_entropy(model(x), y), weight=len(y))
        assert window.stepped
    return weights_of(model)


@pytest.mark.parametrize("sync", ["last", "every"])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_windows_without_a_loader_are_exchanged_too(two_ranks: Pool, kind: str, sync: str) -> None:
    found = two_ranks.run(own_batches, kind, sync)

    assert all(distance(one, big_batches(EVEN, 3)) <= 1e-6 for one in found)
