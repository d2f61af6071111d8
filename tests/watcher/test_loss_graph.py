"""What a loss's graph tells of how it was made."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from gradkeeper.watcher.loss_graph import facts_of

Made = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def facts(make: Made) -> tuple[Any, str | None]:
    torch.manual_seed(0)
    logits = torch.randn(8, 3, requires_grad=True)
    soft = F.kl_div(F.log_softmax(logits, 1), torch.full((8, 3), 1 / 3), reduction="batchmean")
    hard = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    told = facts_of(make(soft, hard))
    return told.multiplier, told.reduction


MADE: dict[str, tuple[Made, float, str]] = {
    "a batch mean is a mean": (lambda soft, hard: soft, 1.0, "mean"),
    "divided by a window": (lambda soft, hard: soft / 4, 0.25, "mean"),
    "a blend weighs one": (lambda soft, hard: 0.7 * soft + (1 - 0.7) * hard, 1.0, "mean"),
    "whatever lies within": (lambda soft, hard: 0.7 * (soft * 4) + 0.3 * hard, 1.0, "mean"),
    "of three": (lambda soft, hard: 0.5 * soft + 0.3 * hard + 0.2 * hard, 1.0, "mean"),
    "a divided blend": (lambda soft, hard: (0.7 * soft + 0.3 * hard) / 4, 0.25, "mean"),
    "a divided part": (lambda soft, hard: 0.7 * soft / 4 + 0.3 * hard / 4, 0.175, "mean"),
    "halves may be a divisor": (lambda soft, hard: soft / 2 + hard / 2, 0.5, "mean"),
    "no blend": (lambda soft, hard: hard + 0.5 * soft, 1.0, "mean"),
}


@pytest.mark.parametrize("name", MADE)
def test_the_graph_tells_the_weight_of_a_mean(name: str) -> None:
    make, multiplier, reduction = MADE[name]

    found = facts(make)

    assert found == (pytest.approx(multiplier), reduction)


def test_a_sum_divided_by_something_else_is_no_mean() -> None:
    logits = torch.randn(8, 3, requires_grad=True)
    total = F.kl_div(F.log_softmax(logits, 1), torch.full((8, 3), 1 / 3), reduction="sum")

    assert facts_of(total / 5).multiplier is None


def test_a_graph_that_is_freed_already_is_no_fault_of_ours() -> None:
    loss = torch.randn(3, requires_grad=True).mean() / 2
    loss.backward()

    assert facts_of(loss).multiplier is None
