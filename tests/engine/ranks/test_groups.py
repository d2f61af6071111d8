"""Groups of micro-batches, for loops of several owners, on several ranks."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW

from gradkeeper.engine import Engine, RankError
from tests.engine.problems import distance, plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import (
    KINDS,
    big_batches,
    micro_batches_of,
    weights_of,
    wrapped,
)
from tests.engine.ranks.programs import digest_of, loader_of, network
from tests.engine.ranks.test_saved import cut_after

Options = dict[str, Any]
UNEVEN = [[5, 1, 4, 2, 7, 3], [2, 9]]
TAIL = [[5, 1, 4, 2], [2, 9, 3]]


def adversaries() -> dict[str, nn.Module]:
    torch.manual_seed(3)
    noisy = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.2))
    return {"G": DistributedDataParallel(noisy), "D": DistributedDataParallel(nn.Linear(6, 1))}


def play(engine: Engine, models: dict[str, nn.Module], group: list[Any]) -> list[float | None]:
    told = []
    for owner, sign in (("D", 1), ("G", -1)):
        with engine.window(owner=owner) as window:
            for x, _ in group:
                loss = sign * models["D"](models["G"](x)).sigmoid().mean()
                window.backward(loss, weight=len(x))
        told.append(window.loss)
    return told


def teach(engine: Engine, models: dict[str, nn.Module], group: list[Any]) -> list[float | None]:
    with engine.window() as window:
        for x, y in group:
            window.backward(cross_entropy(models["only"](x), y), weight=len(y))
    return [window.loss]


def train_groups(rank: int, kind: str, folder: str, options: Options) -> tuple[bool, str]:
    owners = kind == "owners"
    only = None if owners else wrapped(kind, network(dropout=0.2, coupled=False))
    models = adversaries() if only is None else {"only": only}
    optimizers = {name: AdamW(model.parameters(), lr=0.01) for name, model in models.items()}
    torch.manual_seed(100 + rank)
    engine = Engine(models, optimizers, checkpoint=Path(folder), keep=1000, progress=False)
    losses = engine.track("losses", [])
    resumed = engine.resume()
    step = play if owners else teach
    for group in engine.batches(loader_of(options), size=options["size"], epochs=2):
        if options["ask_on"] in (None, rank):
            engine.save()
        losses.extend(step(engine, models, group))
    parts = list(models.values())
    result = {
        "weights": [one for model in parts for one in weights_of(model)],
        "buffers": [one.clone() for model in parts for one in model.buffers()],
        "rng": torch.get_rng_state(),
        "losses": losses,
        "steps": engine.steps,
    }
    return resumed, digest_of(result)


@pytest.mark.filterwarnings("ignore:layer")
@pytest.mark.parametrize(
    ("kind", "size", "ask_on"),
    [("owners", 1, None), ("owners", 2, 1), ("ddp", 2, 0), ("fsdp", 1, 1)],
)
def test_a_loop_cut_between_groups_ends_bit_for_bit_the_same(
    two_ranks: Pool, tmp_path: Path, kind: str, size: int, ask_on: int | None
) -> None:
    options: Options = {"size": size, "ask_on": ask_on, "sampler": "uneven"}
    whole = two_ranks.run(train_groups, kind, str(tmp_path / "whole"), options)
    saves = len(list((tmp_path / "whole").glob("save-*")))

    for number in range(1, saves, 2):
        cut = cut_after(tmp_path / "whole", number, tmp_path / f"cut-{number}")
        found = two_ranks.run(train_groups, kind, str(cut), options)

        assert found == [(True, digest) for _, digest in whole], number
    assert saves >= 10


def trained_on_groups(rank: int, kind: str, sync: Any, sizes: list[list[int]]) -> list[Tensor]:
    model = wrapped(kind)
    engine = Engine(model, plain_sgd(model.parameters()), sync=sync, progress=False)
    for group in engine.batches(micro_batches_of(rank, sizes), size=2):
        teach(engine, {"only": model}, group)
    return weights_of(model)


@pytest.mark.parametrize("sync", ["last", "every"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_runs_out_of_groups_changes_nothing(
    two_ranks: Pool, kind: str, sync: str
) -> None:
    found = two_ranks.run(trained_on_groups, kind, sync, UNEVEN)

    assert all(distance(one, big_batches(UNEVEN, 2)) <= 1e-6 for one in found)


@pytest.mark.parametrize("sync", ["last", "every"])
def test_a_group_that_is_shorter_on_one_rank_is_exact_too(two_ranks: Pool, sync: str) -> None:
    found = two_ranks.run(trained_on_groups, "ddp", sync, TAIL)

    assert all(distance(one, big_batches(TAIL, 2)) <= 1e-6 for one in found)


def train_on_short_groups(rank: int) -> str:
    try:
        trained_on_groups(rank, "fsdp", None, TAIL)
    except RankError as error:
        return str(error)
    return ""


def test_where_a_forward_is_collective_a_shorter_group_is_refused(two_ranks: Pool) -> None:
    told = two_ranks.run(train_on_short_groups)

    assert all("rank 0 runs a forward and rank 1 has gone on" in one for one in told), told


def left_in_a_group_again(rank: int) -> float:
    """Rank 1 is in its only group a second time when both ranks leave the loop."""
    model = wrapped("ddp")
    engine = Engine(model, plain_sgd(model.parameters()), progress=False)
    for number, group in enumerate(engine.batches(micro_batches_of(rank, UNEVEN), size=2)):
        teach(engine, {"only": model}, group)
        if number == 1:
            break
    with engine.window() as window:
        for x, y in micro_batches_of(rank, UNEVEN):
            window.backward(cross_entropy(model(x), y), weight=len(y))
    return window.weight


def test_after_a_group_again_each_loss_has_its_weight(two_ranks: Pool) -> None:
    assert two_ranks.run(left_in_a_group_again) == [sum(map(sum, UNEVEN))] * 2
