"""A checkpoint of one number of ranks goes on with another: between windows, up to rounding."""

from pathlib import Path
from typing import Any

import pytest
import torch

from gradkeeper.engine import ResumeError
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import KINDS
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
