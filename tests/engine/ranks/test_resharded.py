"""A checkpoint of one number of ranks goes on with another: between windows, up to rounding."""

import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, Subset, TensorDataset

from gradkeeper.engine import Engine, EngineWarning, ResumeError
from tests.engine.problems import plain_sgd, rows
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import KINDS, credit_all, wrapped
from tests.engine.ranks.programs import train
from tests.engine.ranks.test_saved import cut_after

# No noise: what ranks draw depends on how many there are. 48 items: no sampler pads.
OPTIONS: dict[str, Any] = {"dropout": 0.0, "noise": 0.0, "items": 48, "save_every": 1}


def refusal(rank: int, kind: str, folder: str, options: dict[str, Any]) -> str:
    try:
        train(rank, kind, folder, options)
    except ResumeError as error:
        return str(error)
    return ""


def assert_went_on(result: dict[str, Any], whole: dict[str, Any]) -> None:
    """As the run that was not cut, up to rounding."""
    assert result["resumed"]
    assert result["steps"] == whole["steps"]
    torch.testing.assert_close(result["losses"], whole["losses"], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(result["weights"], whole["weights"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_two_ranks_go_on_as_three_and_three_as_two(
    two_ranks: Pool, three_ranks: Pool, tmp_path: Path, kind: str
) -> None:
    of_two, of_three = OPTIONS | {"size": 3}, OPTIONS | {"size": 2}
    whole = two_ranks.run(train, kind, str(tmp_path / "two"), of_two)
    three_ranks.run(train, kind, str(tmp_path / "three"), of_three)

    # In mid-epoch, at its end, and within the second.
    for number in (1, 4, 6):
        cut = cut_after(tmp_path / "two", number, tmp_path / f"two-{number}")
        from_two = three_ranks.run(train, kind, str(cut), of_three)
        cut = cut_after(tmp_path / "three", number, tmp_path / f"three-{number}")
        from_three = two_ranks.run(train, kind, str(cut), of_two)

        for result in (*from_two, *from_three):
            assert_went_on(result, whole[0])


@pytest.mark.parametrize(
    ("alone", "kind"),
    [("plain", "ddp"), ("plain", "fsdp"), ("ddp", "ddp"), ("fsdp", "fsdp"), ("ddp", "fsdp")],
)
def test_one_process_goes_on_as_two_and_two_as_one(
    one_rank: Pool, two_ranks: Pool, tmp_path: Path, alone: str, kind: str
) -> None:
    of_one, of_two = OPTIONS | {"size": 6}, OPTIONS | {"size": 3}
    whole = one_rank.run(train, alone, str(tmp_path / "one"), of_one)
    two_ranks.run(train, kind, str(tmp_path / "two"), of_two)

    for number in (1, 4, 6):
        cut = cut_after(tmp_path / "one", number, tmp_path / f"one-{number}")
        from_one = two_ranks.run(train, kind, str(cut), of_two)
        cut = cut_after(tmp_path / "two", number, tmp_path / f"two-{number}")
        from_two = one_rank.run(train, alone, str(cut), of_one)

        for result in (*from_one, *from_two):
            assert_went_on(result, whole[0])


@pytest.mark.parametrize("kind", KINDS)
def test_an_open_window_of_one_process_is_not_shared_by_two_nor_theirs_by_one(
    one_rank: Pool, two_ranks: Pool, tmp_path: Path, kind: str
) -> None:
    of_one, of_two = OPTIONS | {"save_every": None, "size": 6}, OPTIONS | {"save_every": None}
    one_rank.run(train, "plain", str(tmp_path / "one"), of_one)
    two_ranks.run(train, kind, str(tmp_path / "two"), of_two)

    cut = cut_after(tmp_path / "one", 2, tmp_path / "cut-one")
    of_two_told = two_ranks.run(refusal, kind, str(cut), of_two)
    cut = cut_after(tmp_path / "two", 2, tmp_path / "cut-two")
    of_one_told = one_rank.run(refusal, "plain", str(cut), of_one)

    assert all("saved in mid-window by 1 rank," in one for one in of_two_told), of_two_told
    assert all("go on with 1 rank," in one for one in of_two_told)
    assert all("go on with 2 ranks, and change their number" in one for one in of_one_told)


def test_shards_of_two_go_on_as_three_copies_and_copies_as_shards(
    two_ranks: Pool, three_ranks: Pool, tmp_path: Path
) -> None:
    of_two, of_three = OPTIONS | {"size": 3}, OPTIONS | {"size": 2}

    for before, after in (("fsdp", "ddp"), ("ddp", "fsdp")):
        whole = two_ranks.run(train, before, str(tmp_path / before), of_two)
        cut = cut_after(tmp_path / before, 4, tmp_path / f"{before}-cut")
        found = three_ranks.run(train, after, str(cut), of_three)

        for result in found:
            assert result["resumed"]
            torch.testing.assert_close(result["weights"], whole[0]["weights"], atol=1e-5, rtol=1e-5)


def test_other_windows_altogether_are_refused(
    two_ranks: Pool, three_ranks: Pool, tmp_path: Path
) -> None:
    two_ranks.run(train, "ddp", str(tmp_path / "two"), OPTIONS | {"size": 3})

    cut = cut_after(tmp_path / "two", 1, tmp_path / "cut")
    told = three_ranks.run(refusal, "ddp", str(cut), OPTIONS | {"size": 3})

    assert all("3 micro-batches on each of 2 ranks, and is 3 on each of 3" in one for one in told)


def test_a_checkpoint_of_an_open_window_is_refused_with_the_remedy(
    two_ranks: Pool, three_ranks: Pool, tmp_path: Path
) -> None:
    often = OPTIONS | {"save_every": None, "size": 3}
    two_ranks.run(train, "ddp", str(tmp_path / "two"), often)

    cut = cut_after(tmp_path / "two", 2, tmp_path / "cut")
    told = three_ranks.run(refusal, "ddp", str(cut), often | {"size": 2})

    assert all("go on with 2 ranks" in one for one in told), told


DATA: Any = TensorDataset(*rows(48), torch.arange(48))


def items_by_window(
    rank: int, kind: str, folder: str, size: int, drop: bool
) -> dict[int, list[int]]:
    sampler: Any = DistributedSampler(DATA, seed=3)
    return items_of(
        DataLoader(DATA, batch_size=2, sampler=sampler, drop_last=drop), kind, folder, size
    )


def items_by_turns(rank: int, kind: str, folder: str, size: int) -> dict[int, list[int]]:
    """From plain loaders that nobody deals out but the user: every rank takes each n-th item."""
    share: Any = Subset(DATA, range(rank, 48, dist.get_world_size()))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*whether each item is read once", EngineWarning)
        return items_of(DataLoader(share, batch_size=2), kind, folder, size)


def items_of(loader: Any, kind: str, folder: str, size: int) -> dict[int, list[int]]:
    """Which items this rank read in each window, by the step that it ended with."""
    model = wrapped(kind)
    engine = Engine(
        model,
        plain_sgd(model.parameters()),
        checkpoint=folder,
        save_every=1,
        keep=1000,
        progress=False,
    )
    engine.resume()
    found = {}
    for window in engine.windows(loader, size=size, epochs=2):
        items: list[int] = []
        with window:
            for x, y, numbers in window:
                window.backward(cross_entropy(model(x), y), weight=len(y))
                items += numbers.tolist()
        found[window.step] = items
    return found


EPOCHS = (range(1, 5), range(5, 9))
"""Their steps."""
ALL = list(range(48))


def together(by_rank: list[dict[int, list[int]]]) -> dict[int, list[int]]:
    """Items of all ranks, sorted."""
    return {step: sorted(i for rank in by_rank for i in rank[step]) for step in by_rank[0]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drop", [False, True])
def test_each_item_is_read_once_and_in_its_window_whatever_the_number_of_ranks(
    two_ranks: Pool, three_ranks: Pool, tmp_path: Path, kind: str, drop: bool
) -> None:
    whole = together(two_ranks.run(items_by_window, kind, str(tmp_path / "two"), 3, drop))
    assert [len(items) for items in whole.values()] == [12] * 8
    assert [sorted(i for step in epoch for i in whole[step]) for epoch in EPOCHS] == [ALL, ALL]

    # In mid-epoch, at its end, and within the second.
    for number in (1, 3, 4, 6):
        cut = cut_after(tmp_path / "two", number, tmp_path / f"{number}")
        rest = together(three_ranks.run(items_by_window, kind, str(cut), 2, drop))

        assert rest == {step: items for step, items in whole.items() if step > number}
        # And from three back to two, in the midst of what they did.
        back = cut_after(cut, number + 1, tmp_path / f"{number} and back")
        rest = together(two_ranks.run(items_by_window, kind, str(back), 3, drop))

        assert rest == {step: items for step, items in whole.items() if step > number + 1}


@pytest.mark.parametrize("kind", KINDS)
def test_so_it_is_where_ranks_take_items_in_turns_from_a_plain_loader(
    two_ranks: Pool, three_ranks: Pool, tmp_path: Path, kind: str
) -> None:
    whole = together(two_ranks.run(items_by_turns, kind, str(tmp_path / "two"), 3))
    assert [sorted(i for step in epoch for i in whole[step]) for epoch in EPOCHS] == [ALL, ALL]

    for number in (1, 6):
        cut = cut_after(tmp_path / "two", number, tmp_path / f"{number}")
        rest = together(three_ranks.run(items_by_turns, kind, str(cut), 2))

        assert rest == {step: items for step, items in whole.items() if step > number}


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return islice(zip(*rows(48), strict=True), dist.get_rank(), None, dist.get_world_size())


def warnings_of_stream(rank: int, folder: str, size: int) -> list[str]:
    model = wrapped("ddp")
    engine = Engine(
        model,
        plain_sgd(model.parameters()),
        checkpoint=folder,
        save_every=1,
        keep=1000,
        progress=False,
    )
    with warnings.catch_warnings(record=True) as told:
        engine.resume()
        for window in engine.windows(DataLoader(Stream(), batch_size=2), size=size):
            with window:
                credit_all(window, model)
    return [str(one.message) for one in told if one.category is EngineWarning]


def test_where_nobody_knows_whether_each_item_is_read_once_you_are_told(
    two_ranks: Pool, three_ranks: Pool, tmp_path: Path
) -> None:
    assert two_ranks.run(warnings_of_stream, str(tmp_path / "two"), 3) == [[], []]

    cut = cut_after(tmp_path / "two", 1, tmp_path / "cut")
    first, *others = three_ranks.run(warnings_of_stream, str(cut), 2)

    assert others == [[], []]
    assert len(first) == 1
    assert first[0].startswith(
        "2 ranks have read 6 micro-batches of this epoch, and 3 go on behind as many: whether each "
        "item is read once depends on how your loader shares them out"
    )
