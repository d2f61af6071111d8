"""assert_partition_invariant passes steps that weigh their parts, and names those that do not."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradkeeper.testing import assert_partition_invariant
from tests.engine.problems import classifier, engine_of, rows

BATCH = rows(10)


def by_engine(parts: list[Any]) -> nn.Module:
    model = classifier()
    with engine_of(model).window() as window:
        for x, y in parts:
            window.backward(cross_entropy(model(x), y), weight=len(y))
    return model


def mean_of_means(parts: list[Any]) -> nn.Module:
    model = classifier()
    for x, y in parts:
        (cross_entropy(model(x), y) / len(parts)).backward()
    return model


def test_an_engine_window_is_invariant() -> None:
    assert_partition_invariant(by_engine, BATCH)


def test_a_mean_of_means_is_not() -> None:
    with pytest.raises(
        AssertionError, match=r"0\.weight depends on how the batch is cut: in parts"
    ):
        assert_partition_invariant(mean_of_means, BATCH)


def test_equal_parts_hide_it() -> None:
    assert_partition_invariant(mean_of_means, BATCH, partitions=[[5, 5]])


def test_batchnorm_is_found() -> None:
    def step(parts: list[Any]) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
        for x, y in parts:
            (cross_entropy(model(x), y) * len(y) / 10).backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    with pytest.raises(AssertionError, match="tensor 0 depends"):
        assert_partition_invariant(step, BATCH, partitions=[[5, 5]])


def test_batches_may_be_dicts_and_results_tensors_by_name() -> None:
    def step(parts: list[Any]) -> dict[str, Tensor]:
        return {"sum": torch.stack([part["x"].sum(dim=0) for part in parts]).sum(dim=0)}

    assert_partition_invariant(step, {"x": BATCH[0].double(), "y": BATCH[1]})


def test_a_step_that_goes_on_from_its_last_weights_is_told_so() -> None:
    model = classifier()

    def step(parts: list[Any]) -> nn.Module:
        with engine_of(model).window() as window:
            for x, y in parts:
                window.backward(cross_entropy(model(x), y), weight=len(y))
        return model

    with pytest.raises(AssertionError, match="differs between two runs"):
        assert_partition_invariant(step, BATCH)
