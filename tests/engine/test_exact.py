"""Whatever the partition and the weights, a window is one big batch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.engine.problems import (
    classifier,
    credit_all,
    distance,
    engine_of,
    one_big_batch,
    parts_of,
    plain_sgd,
    rows,
    weights_of,
)

PRECISIONS = [(torch.float32, 1e-6), (torch.float64, 1e-12)]
sizes_of_parts = st.lists(st.integers(1, 12), min_size=1, max_size=8)


def gradient_distance(one: nn.Module, other: nn.Module, dtype: torch.dtype) -> float:
    """Of the steps taken from the same start, which are the gradients times the learning rate."""
    start = weights_of(classifier(dtype))
    taken = [a - b for a, b in zip(weights_of(one), start, strict=True)]
    expected = [a - b for a, b in zip(weights_of(other), start, strict=True)]
    return distance(taken, expected)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@settings(deadline=None, max_examples=25)
@given(sizes=sizes_of_parts)
def test_any_partition_of_a_window_is_one_big_batch(
    dtype: torch.dtype, tolerance: float, sizes: list[int]
) -> None:
    batch = rows(sum(sizes), dtype)
    whole = one_big_batch(batch, dtype=dtype)

    model = classifier(dtype)
    engine = engine_of(model)
    for window in engine.windows(parts_of(batch, sizes), size=len(sizes)):
        with window:
            credit_all(window, model)

    assert distance(weights_of(model), weights_of(whole)) <= tolerance
    assert window.stepped
    loss = cross_entropy(classifier(dtype)(batch[0]), batch[1]).item()
    assert window.loss == pytest.approx(loss, rel=tolerance)


@settings(deadline=None, max_examples=25)
@given(sizes=sizes_of_parts)
def test_the_step_itself_is_exact_too(sizes: list[int]) -> None:
    batch = rows(sum(sizes), torch.float64)
    whole = one_big_batch(batch, dtype=torch.float64)

    model = classifier(torch.float64)
    with engine_of(model).window() as window:
        for x, y in parts_of(batch, sizes):
            window.backward(cross_entropy(model(x), y), weight=len(y))

    assert gradient_distance(model, whole, torch.float64) <= 1e-12


weights = st.one_of(st.integers(0, 5000), st.just(0.0), st.floats(1e-3, 1e4))


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@settings(deadline=None, max_examples=40)
@given(drawn=st.lists(weights, min_size=1, max_size=6), as_tensors=st.booleans())
def test_any_weights_give_the_weighted_mean(
    dtype: torch.dtype, tolerance: float, drawn: list[float], as_tensors: bool
) -> None:
    points = torch.arange(1.0, len(drawn) + 1, dtype=dtype)
    parameter = nn.Parameter(torch.zeros((), dtype=dtype))
    model = nn.ParameterList([parameter])

    with engine_of(model).window() as window:
        for point, weight in zip(points, drawn, strict=True):
            given_weight = torch.tensor(weight, dtype=torch.float64) if as_tensors else weight
            window.backward(parameter * point, weight=given_weight)

    total = sum(drawn)
    if not total:
        assert not window.stepped
        assert "add up to 0" in str(window.reason)
        assert parameter == 0
        return
    mean = sum(float(p) * w for p, w in zip(points, drawn, strict=True)) / total
    assert parameter.item() == pytest.approx(-0.1 * mean, rel=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_token_losses_with_ignore_index_are_weighed_by_what_stays(
    dtype: torch.dtype, tolerance: float
) -> None:
    x, y = rows(40, dtype)
    y[torch.arange(40) % 3 == 1] = -100
    y[20:29] = -100
    whole = one_big_batch((x, y), dtype=dtype)

    model = classifier(dtype)
    with engine_of(model).window() as window:
        for part_x, part_y in parts_of((x, y), [17, 3, 9, 11]):
            loss = cross_entropy(model(part_x), part_y)
            window.backward(loss, weight=(part_y != -100).sum())

    assert distance(weights_of(model), weights_of(whole)) <= tolerance


def test_a_summed_loss_is_the_same_as_its_mean() -> None:
    batch = rows(22, torch.float64)
    whole = one_big_batch(batch, dtype=torch.float64)

    model = classifier(torch.float64)
    with engine_of(model).window() as window:
        for x, y in parts_of(batch, [5, 1, 16]):
            total = cross_entropy(model(x), y, reduction="sum")
            window.backward(total, weight=len(y), reduction="sum")

    assert distance(weights_of(model), weights_of(whole)) <= 1e-12
    expected = cross_entropy(classifier(torch.float64)(batch[0]), batch[1]).item()
    assert window.loss == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_further_loss_over_the_same_items_adds_nothing_to_the_divisor(reduction: str) -> None:
    batch = rows(22, torch.float64)

    def auxiliary(model: nn.Module, x: Tensor) -> Tensor:
        squares: Tensor = model(x).square().sum(dim=1)
        return squares.mean() if reduction == "mean" else squares.sum()

    whole = classifier(torch.float64)
    optimizer = plain_sgd(whole.parameters())
    divisor = 1 if reduction == "mean" else 22
    (cross_entropy(whole(batch[0]), batch[1]) + auxiliary(whole, batch[0]) / divisor).backward()
    optimizer.step()

    model = classifier(torch.float64)
    with engine_of(model).window() as window:
        for x, y in parts_of(batch, [5, 1, 16]):
            window.backward(cross_entropy(model(x), y), weight=len(y))
            window.backward(auxiliary(model, x), reduction=reduction, counts=False)  # type: ignore[arg-type]

    assert distance(weights_of(model), weights_of(whole)) <= 1e-12
    assert window.weight == 22


def test_a_short_tail_is_one_more_window_at_its_own_weight() -> None:
    parts = parts_of(rows(22), [4, 4, 4, 4, 4, 2])
    by_hand = classifier()
    optimizer = plain_sgd(by_hand.parameters())
    for group in (parts[:4], parts[4:]):
        x = torch.cat([x for x, _ in group])
        y = torch.cat([y for _, y in group])
        optimizer.zero_grad()
        cross_entropy(by_hand(x), y).backward()
        optimizer.step()

    model = classifier()
    reads = []
    for window in engine_of(model).windows(parts, size=4):
        with window:
            credit_all(window, model)
        reads.append(window.read)

    assert reads == [4, 2]
    assert distance(weights_of(model), weights_of(by_hand)) <= 1e-6


def test_large_item_counts_do_not_overflow_half_precision() -> None:
    model = nn.Linear(4, 1).half()
    with engine_of(model).window() as window:
        for count in (70_000, 65_000):
            x = torch.ones(2, 4, dtype=torch.float16)
            window.backward(model(x).mean(), weight=count)

    assert window.stepped
    assert all(torch.isfinite(p).all() for p in model.parameters())
