"""Samplers that shuffle by the number of the epoch: the oracle is a loop that calls set_epoch()."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn, tensor
from torch.optim import SGD
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from gradkeeper.engine import Engine

ITEMS: Any = [tensor([float(number)]) for number in range(12)]


def plain_loader() -> DataLoader[Tensor]:
    return DataLoader(ITEMS, batch_size=2, sampler=shared())


def stated_loader() -> Any:
    return StatefulDataLoader(ITEMS, batch_size=2, sampler=shared())


def shared() -> DistributedSampler[Any]:
    return DistributedSampler(ITEMS, num_replicas=2, rank=1, seed=3)


LOADERS = pytest.mark.parametrize("build", [plain_loader, stated_loader])
# torchdata 0.11 calls what torch 2.13 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


def engine_for(folder: Path | None = None) -> tuple[nn.Module, Engine]:
    model = nn.Linear(1, 1)
    path = None if folder is None else str(folder)
    return model, Engine(model, SGD(model.parameters(), lr=0.1), checkpoint=path, progress=False)


def seen(loader: Any, epochs: int, folder: Path | None = None, last: int = 100) -> list[Any]:
    """The batches of a run that goes on from the folder, and ends after so many with a save."""
    model, engine = engine_for(folder)
    if folder is not None:
        engine.resume()
    found: list[Any] = []
    for window in engine.windows(loader, size=2, epochs=epochs):
        with window:
            for x in window:
                window.backward(model(x).square().mean())
                found.append(x.flatten().tolist())
                if len(found) == last:
                    engine.save()
                if len(found) > last:
                    return found[:last]
    return found


def by_hand(loader: Any, numbers: range) -> list[Any]:
    found = []
    for number in numbers:
        loader.sampler.set_epoch(number)
        found += [x.flatten().tolist() for x in loader]
    return found


@LOADERS
def test_each_epoch_of_a_loop_has_an_order_of_its_own(build: Callable[[], Any]) -> None:
    assert seen(build(), 3) == by_hand(build(), range(3))


def test_the_first_number_is_the_users() -> None:
    loader: Any = plain_loader()
    loader.sampler.set_epoch(5)

    assert seen(loader, 2) == by_hand(plain_loader(), range(5, 7))


def test_who_counts_epochs_outside_is_left_alone() -> None:
    loader: Any = plain_loader()
    found = []
    for number in (4, 2):
        loader.sampler.set_epoch(number)
        found += seen(loader, 1)

    assert found == by_hand(plain_loader(), range(4, 5)) + by_hand(plain_loader(), range(2, 3))


@LOADERS
@pytest.mark.parametrize("last", [1, 3, 4, 5, 6, 8])
def test_a_resumed_run_has_the_orders_of_one_that_was_not(
    tmp_path: Path, build: Callable[[], Any], last: int
) -> None:
    before = seen(build(), 3, tmp_path, last)

    assert before + seen(build(), 3, tmp_path) == by_hand(build(), range(3))


class Counted(IterableDataset[Tensor]):
    """Has no sampler to number, and an `epoch` that is nobody's business."""

    epoch = 0

    def __iter__(self) -> Any:
        return iter([tensor([1.0]), tensor([2.0])])


def test_a_loader_without_such_a_sampler_is_left_alone() -> None:
    data = Counted()

    assert seen(DataLoader(data), 2) == [[1.0], [2.0]] * 2
    assert data.epoch == 0
