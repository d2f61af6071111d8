"""What a batch holds, as a short hash: equal for equal batches, another for others."""

from typing import Any

import numpy
import pytest
import torch

from gradkeeper.engine.data.fingerprint import content_of

BATCHES: list[Any] = [
    torch.arange(6.0),
    torch.arange(6.0).reshape(2, 3),
    torch.arange(6),
    torch.arange(6.0, dtype=torch.bfloat16),
    numpy.arange(6.0),
    numpy.array(["a", "b"]),
    numpy.array(["a", None], dtype=object),
    {"x": torch.zeros(2), "y": [1, 2]},
    {"x": torch.zeros(2), "y": [1, 3]},
    [torch.zeros(2), "text"],
    (torch.zeros(2), "other"),
    1,
    True,
    1.5,
    None,
    b"1",
]


def test_each_has_its_own() -> None:
    assert len({content_of(batch) for batch in BATCHES}) == len(BATCHES)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_and_always_the_same(batch: Any) -> None:
    assert content_of(batch) == content_of(batch)


def test_another_item_in_a_large_batch_is_seen() -> None:
    images = torch.rand(8, 3, 32, 32)

    moved = images[[0, 1, 2, 3, 4, 5, 7, 6]]

    assert content_of(moved) != content_of(images)


def test_on_request_every_number_counts() -> None:
    images = torch.rand(8, 3, 32, 32)
    other = images.clone()
    other[7, 2, 31, 31] += 1

    assert content_of(other) == content_of(images)
    assert content_of(other, whole=True) != content_of(images, whole=True)


def test_an_object_is_told_by_its_kind_alone() -> None:
    class Graph:
        pass

    assert content_of(Graph()) == content_of(Graph())
