"""Ranks that should hold the same weights: the engine compares them, and its tape tells."""

from typing import Any

import pytest
import torch
from torch import Tensor

from gradkeeper.engine import Engine
from gradkeeper.model import audit
from gradkeeper.model import events as ev
from gradkeeper.rules import ALL
from gradkeeper.torch_private import ranks_with_the_same_shard
from tests.engine.problems import plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import credit_all, micro_batches_of, wrapped

WINDOWS = 6


def trained(rank: int, kind: str, world: int, odd: tuple[int, ...], after: int) -> dict[str, Any]:
    """Some ranks change a weight by hand after so many steps."""
    model = wrapped(kind)
    engine = Engine(model, plain_sgd(model.parameters()), progress=False)
    for window in engine.windows(micro_batches_of(rank, [[2] * WINDOWS] * world), size=1):
        with window:
            credit_all(window, model)
        if rank in odd and window.step == after:
            _move(list(model.parameters())[-1])
    events = list(engine.tape)
    last = list(model.parameters())[-1]
    return {
        "looked": [one.step for one in events if isinstance(one, ev.Replicas)],
        "found": [
            (one.rule, one.first_step, one.message, one.detail)
            for one in audit(events, ALL)
            if one.rule == "GK504"
        ],
        "shared": () if kind == "ddp" else ranks_with_the_same_shard(last),
    }


def _move(parameter: Tensor) -> None:
    with torch.no_grad():
        getattr(parameter, "_local_tensor", parameter).add_(0.5)


def test_replicas_are_looked_at_first_often_then_rarely_and_at_the_end(two_ranks: Pool) -> None:
    for told in two_ranks.run(trained, "ddp", 2, (), 0):
        assert told["looked"] == [1, 2, 3, 4, 6]
        assert told["found"] == []


@pytest.mark.parametrize(("world", "odd"), [(2, (1,)), (4, (2,))])
def test_a_rank_that_parts_is_named_with_the_parameter_and_the_step(
    world: int, odd: tuple[int, ...], request: pytest.FixtureRequest
) -> None:
    pool: Pool = request.getfixturevalue("two_ranks" if world == 2 else "four_ranks")

    zero, *_ = pool.run(trained, "ddp", world, odd, 2)

    rule, step, message, detail = zero["found"][0]
    assert (rule, step) == ("GK504", 3)
    assert message.startswith(f"rank {odd[0]} holds other weights than the others after step 3: `")
    assert message.endswith("bias` differs")
    assert detail.endswith(f"equal after step 2; 1 of {world} ranks differ")
    assert len(zero["found"]) == 3


def test_what_is_only_seen_at_the_end_is_told(two_ranks: Pool) -> None:
    zero, _ = two_ranks.run(trained, "ddp", 2, (1,), 5)

    assert [step for _, step, _, _ in zero["found"]] == [6]


def test_shards_of_one_parameter_may_differ(two_ranks: Pool) -> None:
    for told in two_ranks.run(trained, "fsdp", 2, (1,), 2):
        assert told["found"] == []


def test_copies_of_one_shard_may_not(four_ranks: Pool) -> None:
    found = four_ranks.run(trained, "hsdp", 4, (2,), 2)

    parted = [bool(one["found"]) for one in found]
    assert parted == [2 in one["shared"] for one in found]
    assert parted.count(True) == 2
