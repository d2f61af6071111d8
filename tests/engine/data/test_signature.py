"""What must be the same when a run goes on."""

from typing import Any

import pytest
from torch.utils.data import DataLoader

from gradkeeper.checkpoint.codec import encode_plain
from gradkeeper.engine.data import difference, feed_of
from tests.engine.data.loaders import Noisy, Owning, Sharded


def shape(dataset: Any = None, **options: Any) -> dict[str, Any]:
    return feed_of(DataLoader(dataset or Noisy(), **{"batch_size": 2, **options})).signature


def test_equal_loaders_do_not_differ() -> None:
    assert difference(shape(shuffle=True), shape(shuffle=True)) == ""


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            shape(batch_size=4),
            "length was 6, is 3; batch_size was 2, is 4",
        ),
        (
            shape(Noisy(items=13)),
            "length was 6, is 7; dataset_length was 11, is 13",
        ),
        (shape(drop_last=True), "length was 6, is 5; drop_last was False, is True"),
        (shape(shuffle=True), "sampler was 'SequentialSampler', is 'RandomSampler'"),
        (shape(Owning()), "dataset was 'Noisy', is 'Owning'"),
        (
            shape(num_workers=1),
            "num_workers was 0, is 1; prefetch_factor was not there, is 2; "
            "persistent_workers was not there, is False",
        ),
    ],
)
def test_a_difference_is_told_in_words(now: dict[str, Any], said: str) -> None:
    assert difference(shape(), now) == said


def test_another_rank_reads_another_part() -> None:
    one, other = (shape(sampler=Sharded(Noisy(), 2, rank)) for rank in (0, 1))

    assert difference(one, other) == "rank was 0, is 1"


@pytest.mark.parametrize("loader", [DataLoader(Noisy()), [1, 2], (one for one in "ab")])
def test_a_shape_is_readable_without_torch(loader: Any) -> None:
    shape = feed_of(loader).signature

    assert encode_plain(shape, root="shape") == shape
