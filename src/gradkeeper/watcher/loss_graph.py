"""What the graph of a loss tells: a few steps down it, how the loss was made; a walk over all of
it, what it reaches.

Reads the names of nodes, and numbers that came from Python; of tensors only such as lie on the
host. What it does not know it leaves None. The walk is slow, so it is made now and then only.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradkeeper.model.events import Reduction
from gradkeeper.torch_private import is_sharded

MOST_HOPS = 16
MOST_DIVISORS = 256
SCALED_BY = "gradkeeper.scaler"
"""Under this key of a node's metadata lies the name of the scaler that made it."""

LOSSES = frozenset(
    {
        "NllLossBackward0",
        "NllLoss2DBackward0",
        "MseLossBackward0",
        "L1LossBackward0",
        "SmoothL1LossBackward0",
        "HuberLossBackward0",
        "BinaryCrossEntropyBackward0",
        "BinaryCrossEntropyWithLogitsBackward0",
        "KlDivBackward0",
        "SoftMarginLossBackward0",
        "MultiMarginLossBackward0",
        "MultilabelMarginLossBackward0",
    }
)
COUNTED = frozenset({"NllLossBackward0", "NllLoss2DBackward0"})
TRANSPARENT = frozenset(
    {
        "NegBackward0",
        "ToCopyBackward0",
        "CloneBackward0",
        "AliasBackward0",
        "ViewBackward0",
        "UnsafeViewBackward0",
        "SqueezeBackward0",
        "SqueezeBackward1",
        "UnsqueezeBackward0",
        "ReshapeAliasBackward0",
    }
)
SUMS = frozenset({"AddBackward0", "SubBackward0"})
REDUCTIONS: dict[int, Reduction] = {1: "mean", 2: "sum"}


class LossFacts(NamedTuple):
    multiplier: float | None = None
    reduction: Reduction | None = None
    scaler: str | None = None
    twice: int | None = None
    """The number by which it was divided, and then divided again."""


UNKNOWN = LossFacts()
PLAIN_MEAN = LossFacts(1.0, "mean")


def facts_of(loss: torch.Tensor, gradient: object = None) -> LossFacts:
    """What can be told of `loss.backward(gradient)`."""
    node: Any = loss.grad_fn
    if gradient is None:
        kind = type(node)
        if kind is MEAN:
            return PLAIN_MEAN
        if kind is DIVIDED:
            # `mean / N`, which is what windows are made of: as `_follow` finds, quicker.
            (operand, _), (divisor, _) = node.next_functions
            if divisor is None and type(operand) is MEAN and not (_scalers and is_scaled(node)):
                known = _mean_over(node)
                if known is not None:
                    return known
    if node is None or loss.dim() != 0:
        return UNKNOWN
    outer = 1.0 if gradient is None else _number(gradient)
    way = _follow(node, outer, MOST_HOPS)
    twice = _divided_twice(node) if outer == 1.0 and way.reduction == "mean" else None
    return LossFacts(way.multiplier, way.reduction, way.scaler, twice)


HALVED = 2
"""Losses are halved for their own sake too, as a squared error is."""


def _divided_twice(node: Any) -> int | None:
    """N of `loss / N / N`: by hand for a window, and by a framework that does so too.

    A sum of N terms that is divided by N is their mean, and no part of it.
    """
    divisors: list[int] = []
    for _ in range(MOST_HOPS):
        kind = type(node).__name__
        if kind in TRANSPARENT:
            node = node.next_functions[0][0]
        elif kind in ("DivBackward0", "MulBackward0") and _operand(node) is not None:
            if SCALED_BY not in node.metadata:
                divisor = _whole_divisor(_factor(node, kind))
                if divisor is None or len(_weights(_operand(node), MOST_HOPS)) == divisor > 1:
                    return None
                divisors += [divisor] if divisor > 1 else []
            node = _operand(node)
        else:
            break
    same = len(divisors) == 2 and divisors[0] == divisors[1] > HALVED
    return divisors[0] if same else None


def _whole_divisor(factor: float | None) -> int | None:
    if not factor or not math.isfinite(1 / factor):
        return None  # the loss may be multiplied by what is not a number
    whole = round(1 / factor)
    return whole if abs(whole * factor - 1) < 1e-6 else None


def _kinds_of_node() -> tuple[type, type]:
    """Of a mean, and of what is divided."""
    with torch.enable_grad():
        mean = torch.ones(1, requires_grad=True).mean()
        return type(mean.grad_fn), type((mean / 2).grad_fn)


# As types: the name of one is made anew whenever it is asked for.
MEAN, DIVIDED = _kinds_of_node()
_divided: dict[float, LossFacts] = {}
"""Means over a number, made once for each."""
_scalers = False
"""Whether any node has been marked: one that is asked for its metadata is given some."""


def mark_scaled(node: Any, scaler: str) -> None:
    """What is multiplied here is so for a scaler, and not by the user."""
    global _scalers
    _scalers = True
    node.metadata[SCALED_BY] = scaler


def is_scaled(node: Any) -> bool:
    """It is a scaler that multiplies here, by a factor that all losses share."""
    return _scalers and SCALED_BY in node.metadata


def _mean_over(node: Any) -> LossFacts | None:
    """Of a mean that is divided by a number; None where there is nothing to remember."""
    try:
        other = node._saved_other
    except RuntimeError:  # freed already
        return None
    if type(other) is not Tensor or not other.is_cpu:
        return None
    # Quicker than `item`, and a list where it is not one number.
    number: Any = other.tolist()
    if type(number) is list:
        return None
    known = _divided.get(number)
    if known is None and number and len(_divided) < MOST_DIVISORS:
        known = _divided[number] = LossFacts(*_follow(node, 1.0, MOST_HOPS)[:3])
    return known


class WayDown(NamedTuple):
    """From a node to what made the loss."""

    multiplier: float | None = None
    reduction: Reduction | None = None
    scaler: str | None = None
    counted: Any = None
    """The node that counted the items."""


def _follow(node: Any, multiplier: float | None, hops: int) -> WayDown:
    scaler = None
    counted = None
    reduction: Reduction | None = None
    while node is not None and hops > 0:
        hops -= 1
        kind = type(node).__name__
        if kind in LOSSES:
            reduction = REDUCTIONS.get(node._saved_reduction)
            counted = node if kind in COUNTED else None
            break
        if kind in ("MeanBackward0", "MeanBackward1"):
            reduction = "mean"
            break
        if kind in ("SumBackward0", "SumBackward1"):
            reduction = "sum"
            break
        if kind in ("DivBackward0", "MulBackward0"):
            mark = node.metadata.get(SCALED_BY)
            if mark is not None:
                scaler = mark
            elif _is_batchmean(node, kind):
                reduction = "mean"
                break
            else:
                multiplier = _times(multiplier, _factor(node, kind))
            node = _operand(node)
        elif kind in SUMS:
            return _sum_of(node, multiplier, scaler, hops)
        elif kind in TRANSPARENT:
            node = node.next_functions[0][0]
        else:
            multiplier = None
            break
    # A sum's multiplier is the user's way of counting items; it tells nothing of a window.
    known = None if multiplier is None or reduction != "mean" else abs(multiplier)
    return WayDown(known, reduction, scaler, counted=counted)


def _sum_of(node: Any, multiplier: float | None, scaler: str | None, hops: int) -> WayDown:
    """Of several terms: a mean if all are; the weight of the heaviest, or of a blend the whole."""
    terms = [
        _follow(branch, multiplier, hops // 2)
        for branch, _ in node.next_functions
        if branch is not None
    ]
    if not terms:
        return WayDown(scaler=scaler)
    scaler = scaler or next((term.scaler for term in terms if term.scaler), None)
    if any(term.reduction != "mean" or term.multiplier is None for term in terms):
        return WayDown(scaler=scaler)
    heaviest = max(term.multiplier or 0.0 for term in terms)
    if multiplier is not None and _is_blend(_weights(node, hops)):
        heaviest = abs(multiplier)
    counted = terms[0].counted if len(terms) == 1 else None
    return WayDown(heaviest, "mean", scaler, counted=counted)


def _is_blend(weights: list[float | None]) -> bool:
    """`a * x + (1 - a) * y`; equal shares may be a window's divisor, put into each term."""
    known = [weight for weight in weights if weight is not None and weight > 0]
    if len(known) < len(weights) or max(known) - min(known) < 1e-6:
        return False
    return abs(sum(known) - 1) < 1e-6


def _weights(node: Any, hops: int) -> list[float | None]:
    """The outermost factor of each term of a sum."""
    kind = type(node).__name__
    if kind in SUMS and hops > 0:
        branches = [branch for branch, _ in node.next_functions if branch is not None]
        return [weight for branch in branches for weight in _weights(branch, hops - 1)]
    return [_factor(node, kind) if kind in ("DivBackward0", "MulBackward0") else 1.0]


def _is_batchmean(node: Any, kind: str) -> bool:
    """What `kl_div(reduction="batchmean")` makes: a table of differences (torch 2.13 has no node
    of its own for it), summed and divided by its length."""
    summed = _operand(node)
    if kind != "DivBackward0" or type(summed).__name__ != "SumBackward0":
        return False
    sizes = summed._saved_self_sym_sizes
    if len(sizes) < 2 or not sizes[0] or type(_operand(summed)).__name__ != "SubBackward0":
        return False
    return bool(_factor(node, kind) == 1.0 / sizes[0])


def _times(factor: float | None, other: float | None) -> float | None:
    return None if factor is None or other is None else factor * other


def _operand(node: Any) -> Any:
    branches = [branch for branch, _ in node.next_functions if branch is not None]
    return branches[0] if len(branches) == 1 else None


def _factor(node: Any, kind: str) -> float | None:
    if len([1 for branch, _ in node.next_functions if branch is not None]) != 1:
        return None
    try:
        if kind == "DivBackward0":
            other = _number(node._saved_other)
            return None if not other else 1.0 / other
        number = _number(node._saved_other)
        return number if number is not None else _number(node._saved_self)
    except RuntimeError:  # freed already
        return None


def _number(value: object) -> float | None:
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, torch.Tensor) and value.dim() == 0 and value.device.type == "cpu":
        return None if is_sharded(value) else float(value)
    return None


def items_of(loss: torch.Tensor) -> tuple[int, int] | None:
    """Items that counted and items that ignore_index removed. Reads a value: the cold path only."""
    if loss.dim() != 0:
        return None
    node = _follow(loss.grad_fn, 1.0, MOST_HOPS).counted
    try:
        if node is None or node._saved_reduction != 1 or node._saved_weight is not None:
            return None
        if is_sharded(node._saved_total_weight):
            return None
        counted = int(node._saved_total_weight)
        return counted, int(node._saved_target.numel()) - counted
    except (RuntimeError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class BackwardReach:
    """What a backward will reach."""

    leaves: list[torch.Tensor]
    """Tensors that receive a gradient, parameters or not."""
    coupled: bool
    """A layer normalises each batch by its own statistics."""
    autocast: str | None
    """The half precision in which float32 parameters were used."""


def reach_of(losses: list[torch.Tensor]) -> BackwardReach:
    leaves: dict[int, torch.Tensor] = {}
    dtypes: set[torch.dtype] = set()
    coupled = False
    for loss in losses:
        if loss.grad_fn is None and loss.requires_grad:
            leaves[id(loss)] = loss
    for node in nodes_of(losses):
        kind = type(node).__name__
        if kind == "AccumulateGrad":
            leaves[id(node.variable)] = node.variable
            continue
        coupled = coupled or _couples(node, kind)
        dtypes.update(_dtypes(node))
    found = list(leaves.values())
    return BackwardReach(found, coupled, _autocast(dtypes, found))


def nodes_of(losses: list[torch.Tensor]) -> Iterator[Any]:
    """All nodes of their graph."""
    waiting: list[Any] = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for branch, _ in node.next_functions:
            if branch is not None and branch not in seen:
                seen.add(branch)
                waiting.append(branch)


def _couples(node: Any, kind: str) -> bool:
    if "BatchNorm" not in kind:
        return False
    return bool(getattr(node, "_saved_training", True))


def _dtypes(node: Any) -> set[torch.dtype]:
    try:
        return {metadata.dtype for metadata in node._input_metadata}
    except (RuntimeError, AttributeError):
        return set()


def _autocast(dtypes: set[torch.dtype], leaves: list[torch.Tensor]) -> str | None:
    if not any(leaf.dtype is torch.float32 for leaf in leaves):
        return None
    if any(leaf.dtype in (torch.float16, torch.bfloat16) for leaf in leaves):
        return None
    if torch.float16 in dtypes:
        return "float16"
    return "bfloat16" if torch.bfloat16 in dtypes else None
