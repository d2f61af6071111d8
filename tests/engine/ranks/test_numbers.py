"""What a window tells is true of all ranks; and what a rank does alone leaves no trace."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD

from gradkeeper.engine import Engine, SetupError
from gradkeeper.model import Severity, audit
from gradkeeper.model import events as ev
from gradkeeper.rules import ALL
from tests.engine.problems import classifier, distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import (
    KINDS,
    credit_all,
    micro_batches_of,
    weights_of,
    wrapped,
)

UNEVEN = [[5, 1, 4, 2, 7, 3], [2, 2, 9, 1]]
EVEN = [[3] * 4, [3] * 4]


def told(rank: int, kind: str, bound: float) -> list[Any]:
    model = wrapped(kind)
    engine = Engine(model, plain_sgd(model.parameters()), clip_norm=bound, progress=False)
    numbers = []
    for window in engine.windows(micro_batches_of(rank, UNEVEN), size=4):
        with window:
            credit_all(window, model)
        numbers.append((window.loss, window.grad_norm, window.weight))
    errors = [one.rule for one in audit(engine.tape, ALL) if one.severity is not Severity.INFO]
    ranks = {event.rank for event in engine.tape}
    digests = sum(isinstance(event, ev.Digest) for event in engine.tape)
    return [numbers, weights_of(model), errors, ranks, digests]


@pytest.mark.parametrize("bound", [0.05, 100.0])
@pytest.mark.parametrize("kind", KINDS)
def test_loss_norm_and_clipping_are_those_of_the_big_batch(
    two_ranks: Pool, kind: str, bound: float
) -> None:
    whole = classifier()
    optimizer = plain_sgd(whole.parameters())
    expected = []
    shares = [micro_batches_of(rank, UNEVEN) for rank in range(2)]
    for start in (0, 4):
        parts = [part for share in shares for part in share[start : start + 4]]
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        optimizer.zero_grad()
        loss = cross_entropy(whole(x), y)
        loss.backward()
        norm = clip_grad_norm_(whole.parameters(), bound)
        optimizer.step()
        expected.append((loss.item(), norm.item(), float(len(y))))

    found = two_ranks.run(told, kind, bound)

    for rank, (numbers, weights, errors, ranks, digests) in enumerate(found):
        for one, other in zip(numbers, expected, strict=True):
            assert one == pytest.approx(other, rel=1e-5)
        assert distance(weights, weights_of(whole)) <= 1e-6
        assert errors == []
        assert ranks == {rank}
        assert digests == 2


def audited(rank: int, sizes: list[list[int]]) -> list[str]:
    model = wrapped("ddp")
    engine = Engine(model, plain_sgd(model.parameters()), progress=False)
    for window in engine.windows(micro_batches_of(rank, sizes), size=4):
        with window:
            credit_all(window, model)
    return [one.rule for one in audit(engine.tape, ALL) if one.severity is not Severity.INFO]


@pytest.mark.parametrize("fewer", [1, 2, 3])
def test_a_rank_that_runs_out_in_mid_window_writes_down_that_it_exchanged(
    two_ranks: Pool, fewer: int
) -> None:
    """What it lacks it takes at weight 0, and with that the exchange of what it has."""
    sizes = [[3] * (8 - fewer), [3] * 8]

    assert two_ranks.run(audited, sizes) == [[], []]


def plain_and_engine(rank: int) -> bool:
    """One mean loss a window, equally many items on each rank."""
    batches = micro_batches_of(rank, EVEN)
    by_hand = wrapped("ddp")
    optimizer = plain_sgd(by_hand.parameters())
    for x, y in batches:
        optimizer.zero_grad()
        cross_entropy(by_hand(x), y).backward()
        optimizer.step()
    model = wrapped("ddp")
    engine = Engine(model, plain_sgd(model.parameters()), progress=False)
    for window in engine.windows(batches):
        with window:
            credit_all(window, model)
    pairs = zip(weights_of(by_hand), weights_of(model), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def test_windows_of_one_are_bitwise_the_plain_ddp_loop(two_ranks: Pool) -> None:
    assert two_ranks.run(plain_and_engine) == [True, True]


def normed(rank: int) -> tuple[list[Tensor], bool, float]:
    """A model with running statistics and dropout; rank 1 has less data."""
    torch.manual_seed(3)
    inner = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    model = DistributedDataParallel(inner, broadcast_buffers=False)
    engine = Engine(model, plain_sgd(model.parameters()), progress=False)
    batches = micro_batches_of(rank, [[4, 4, 4, 4], [4, 4]])
    states = []
    for window in engine.windows(batches, size=2):
        with window:
            credit_all(window, model)
        states.append(torch.get_rng_state())
    seen = inner.state_dict()["1.num_batches_tracked"].item()
    return weights_of(model), torch.equal(*states), seen


@pytest.mark.filterwarnings("ignore")
def test_a_batch_handed_out_again_leaves_no_trace(two_ranks: Pool) -> None:
    (weights, same, seen), (others, same_there, fewer) = two_ranks.run(normed)

    assert (seen, fewer) == (4, 2)
    assert (same, same_there) == (False, True)
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


def adversaries(rank: int) -> list[Tensor]:
    """Two owners, each wrapped; rank 1 has fewer groups."""
    torch.manual_seed(5)
    models: dict[str, nn.Module] = {
        "G": DistributedDataParallel(nn.Linear(2, 4)),
        "D": DistributedDataParallel(nn.Linear(4, 1)),
    }
    engine = Engine(models, {n: SGD(m.parameters(), lr=0.1) for n, m in models.items()})
    noise = torch.randn(10, 8, 2, generator=torch.Generator().manual_seed(6))
    share = list(noise[:6] if rank == 0 else noise[6:])
    for group in engine.batches(share, size=2):
        for owner, sign in (("D", 1), ("G", -1)):
            with engine.window(owner=owner) as window:
                for one in group:
                    loss = sign * models["D"](models["G"](one)).square().mean()
                    window.backward(loss, weight=len(one))
            assert window.stepped
    return [one for model in models.values() for one in weights_of(model)]


def test_owners_exchange_at_close(two_ranks: Pool) -> None:
    torch.manual_seed(5)
    models = {"G": nn.Linear(2, 4), "D": nn.Linear(4, 1)}
    optimizers = {n: SGD(m.parameters(), lr=0.1) for n, m in models.items()}
    noise = torch.randn(10, 8, 2, generator=torch.Generator().manual_seed(6))
    for group in ([0, 1, 6, 7], [2, 3, 8, 9], [4, 5]):
        for owner, sign in (("D", 1), ("G", -1)):
            for optimizer in optimizers.values():
                optimizer.zero_grad()
            loss = sign * models["D"](models["G"](noise[group].flatten(0, 1))).square().mean()
            loss.backward()
            optimizers[owner].step()
    expected = [one for model in models.values() for one in weights_of(model)]

    found = two_ranks.run(adversaries)

    assert all(distance(one, expected) <= 1e-6 for one in found)


def overflowing(rank: int) -> list[Any]:
    """In float16, rank 1 overflows once: both skip, and both shrink their scale."""
    model = wrapped("ddp")
    engine = Engine(model, plain_sgd(model.parameters()), precision="fp16", progress=False)
    outcomes = []
    for number, window in enumerate(engine.windows(micro_batches_of(rank, EVEN), size=2)):
        with window:
            for x, y in window:
                factor = float("inf") if rank == 1 and number == 1 else 1e-4
                window.backward(cross_entropy(model(x), y) * factor, weight=len(y))
        outcomes.append(window.stepped)
    return [outcomes, weights_of(model)]


def test_an_overflow_on_one_rank_is_skipped_by_all(two_ranks: Pool) -> None:
    (zero, weights), (one, others) = two_ranks.run(overflowing)

    assert zero == one == [True, False]
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


def refused(rank: int, what: str) -> str:
    try:
        if what == "bare":
            bare = classifier()
            Engine(bare, plain_sgd(bare.parameters()))
        if what == "owners":
            models = {name: wrapped("fsdp") for name in "ab"}
            Engine(models, {name: plain_sgd(m.parameters()) for name, m in models.items()})
        if what == "sync":
            model = wrapped("ddp")
            Engine(model, plain_sgd(model.parameters()), sync="never")  # type: ignore[arg-type]
    except SetupError as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("bare", "wrap the model"),
        ("owners", "several owners"),
        ("sync", "sync is 'last', 'every' or 'shards', not 'never'"),
    ],
)
def test_what_ranks_cannot_train_is_refused(two_ranks: Pool, what: str, words: str) -> None:
    assert all(words in one for one in two_ranks.run(refused, what))
