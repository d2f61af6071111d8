"""Weights that live on a device are added up there, and read once."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradkeeper.engine import WeightError
from gradkeeper.engine.loss_weights import DeviceTally, LossWeights, Tally

HERE = torch.device("cpu")


def count_all(tally: LossWeights, weights: list[float]) -> list[tuple[float, float]]:
    factors = []
    for weight in weights:
        tally.count(weight)
        factors.append((float(tally.mean_factor), float(tally.sum_factor)))
    return factors


@given(st.lists(st.integers(0, 4096), min_size=1, max_size=8))
def test_a_tally_on_the_device_counts_like_one_on_the_host(weights: list[float]) -> None:
    host, device = Tally(), DeviceTally.following(Tally(), HERE)

    on_host = count_all(host, weights)
    on_device = count_all(device, weights)
    length, settled = device.settled(torch.tensor(2.5))

    assert on_device == [pytest.approx(pair, rel=1e-6) for pair in on_host]
    assert length == 2.5
    assert settled == host


def test_a_device_weight_follows_those_known_on_the_host() -> None:
    host = Tally()
    host.count(3.0)
    device = DeviceTally.following(host, HERE)
    device.count(torch.tensor(5.0))

    _, settled = device.settled(torch.tensor(0.0))

    assert settled == Tally(first=3.0, total=8.0, last=5.0)


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_bad_weight_on_the_device_is_found_at_the_end(weight: float) -> None:
    device = DeviceTally.following(Tally(), HERE)
    device.count(4.0)
    device.count(weight)

    with pytest.raises(WeightError, match="add up to"):
        device.settled(torch.tensor(0.0))
