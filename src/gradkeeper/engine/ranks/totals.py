"""What the ranks counted, added up."""

import math

import torch
from torch import Tensor

from gradkeeper.engine.pending import Pending
from gradkeeper.engine.ranks.words import Word
from gradkeeper.engine.weights import Tally


def counts_of(pending: Pending, norm: Tensor | None) -> tuple[dict[str, float], Tally]:
    """This rank's numbers for the roll call, and its weights: the window's one wait for the device,
    since what is read after the first number is there already."""
    length, weights = pending.weights.settled(torch.zeros(()) if norm is None else norm)
    facts = {
        "weight": weights.total,
        "counted": pending.counted,
        "credits": pending.credits,
        "loss": 0.0 if pending.loss is None else pending.loss.item(),
        "norm": length,
    }
    return facts, weights


def put_totals(pending: Pending, words: list[Word], unit: float, last: float) -> None:
    """From now on, the window's numbers are those of all ranks.

    Gradients were averaged, so the unit counts once for each rank; the loss follows them.
    """
    ranks = len(words)
    pending.weights = Tally(unit * ranks, sum(word.weight for word in words), last)
    pending.counted = int(sum(word.counted for word in words))
    pending.credits = int(sum(word.credits for word in words))
    if pending.credits:
        total = math.fsum(word.loss for word in words)
        pending.loss = torch.tensor(total / ranks, dtype=torch.float64)


def whole_norm(words: list[Word], copies: int) -> float:
    """From the norms of parts, each of which `copies` ranks hold."""
    return math.hypot(*(word.norm for word in words)) / math.sqrt(copies)
