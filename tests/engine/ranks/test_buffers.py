"""DDP broadcasts buffers as a forward begins. A rank that runs none is not waited for."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from gradkeeper.engine import Engine, RankError
from tests.engine.problems import plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import micro_batches_of, weights_of

pytestmark = pytest.mark.filterwarnings("ignore:layer 'module.1' normalises")

EVEN = [[3] * 6, [3] * 6]


class Door(nn.Module):
    """Lets everything through, unless it is shut."""

    shut = False

    def forward(self, x: Tensor) -> Tensor:
        if self.shut:
            raise ValueError("shut")
        return x


def trained(
    rank: int, sync: Any, moment: tuple[int, int], how: str, folder: str | None
) -> tuple[list[bool], list[Tensor]]:
    """At that micro-batch of that window, rank 1 runs no forward to its end."""
    torch.manual_seed(3)
    door = Door()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), door))
    engine = Engine(
        model, plain_sgd(model.parameters()), sync=sync, checkpoint=folder, progress=False
    )
    stepped = []
    for number, window in enumerate(engine.windows(micro_batches_of(rank, EVEN), size=3)):
        try:
            with window:
                for place, (x, y) in enumerate(window):
                    here = rank == 1 and (number, place) == moment
                    if here and how == "leaves it out":
                        continue
                    if here and how == "fails before it":
                        raise ValueError
                    door.shut = here
                    window.backward(cross_entropy(model(x), y), weight=len(y))
        except (ValueError, RankError):
            door.shut = False
        stepped.append(window.stepped)
    return stepped, weights_of(model)


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize("how", ["leaves it out", "fails before it", "fails in it"])
@pytest.mark.parametrize("moment", [(0, 0), (0, 2), (1, 0), (1, 1)])
@pytest.mark.parametrize("sync", ["last", "every"])
def test_a_rank_without_a_forward_is_not_waited_for(
    two_ranks: Pool, tmp_path: Path, sync: str, moment: tuple[int, int], how: str, saves: bool
) -> None:
    folder = str(tmp_path / "run") if saves else None

    (stepped, weights), (others_stepped, others) = two_ranks.run(trained, sync, moment, how, folder)

    assert stepped == others_stepped
    assert stepped[moment[0]] is (how == "leaves it out")
    assert stepped.count(True) >= 1
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))
