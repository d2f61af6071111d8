"""Loss functions and classes: how they reduce, and whether they ignore items."""

import ast

from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import loss_of
from gradkeeper.lint.values import LossFn, Value, base
from gradkeeper.lint.vocabulary import IGNORING

Args = list[Value]
Kwargs = dict[str, Value]


def loss_class(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    reduction = kwargs.get("reduction", "mean")
    known = name.startswith(("torch", "nn"))
    mean = reduction if isinstance(reduction, str) and known else None
    if kwargs.keys() & {"size_average", "reduce", "**"}:
        mean = None
    return LossFn(_reduction(mean), base(name) in IGNORING and "ignore_index" in kwargs)


def _reduction(word: str | None) -> str | None:
    if word == "batchmean":
        return "mean"
    return word if word in ("mean", "sum") else None


def functional_loss(r: Rehearsal, last: str, args: Args, kwargs: Kwargs) -> Value:
    reduction = kwargs.get("reduction", "mean")
    word = reduction if isinstance(reduction, str) else None
    if kwargs.keys() & {"size_average", "reduce", "**"}:
        word = None
    kind = LossFn(_reduction(word), last in IGNORING and "ignore_index" in kwargs)
    return loss_of(r, last, [*args, *kwargs.values()], kind)
