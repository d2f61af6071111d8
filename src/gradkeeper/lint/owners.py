"""Optimizers and schedulers, however they are named and built."""

import ast
import re

from gradkeeper.lint import events_of
from gradkeeper.lint.nodes import Node
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.values import Opaque, Optim, Params, Sched, Value
from gradkeeper.lint.vocabulary import OPTIMIZERS

Args = list[Value]
Kwargs = dict[str, Value]
MADE_OPTIMIZER = re.compile(r"^[A-Z]\w*(Adam|AdamW|SGD|Optimizer)$|^[A-Z]*Adam[A-Z]?\w*$")


def is_optimizer(name: str, last: str) -> bool:
    if "lr_scheduler" in name or last.endswith(("LR", "Scheduler", "Schedule")):
        return False
    if last in OPTIMIZERS or MADE_OPTIMIZER.match(last):
        return True
    return ".optim." in f".{name}" and last[:1].isupper()


def is_scheduler(name: str, last: str) -> bool:
    if "lr_scheduler" in name:
        return True
    if last[:1].isupper():
        return last.endswith(("LR", "Scheduler", "Schedule", "ReduceLROnPlateau"))
    return last.startswith("get_") and "schedule" in last


def build_optimizer(r: Rehearsal, kind: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    source = args[0] if args else kwargs.get("params", kwargs.get("model_params"))
    if isinstance(source, Optim):
        return source
    exhausted = isinstance(source, Params) and source.oneshot and source.used
    given = _groups(r, source, node)
    nodes = list(dict.fromkeys(one for group in given for one in group))
    if exhausted:
        return Opaque("optimizer", role="silent")  # PyTorch raises: nothing comes after it
    known = bool(nodes)
    if isinstance(source, Params) and not nodes:
        known = True
    name = r.registry.unique((r.hint or "optimizer").removeprefix("self."))
    if kind == "SGD" and not kwargs.get("momentum") and len(args) < 3:
        kind = "plain SGD"
    optim = Optim(name, nodes, known=known, kind=kind)
    optim.groups = given
    for one in nodes:
        one.frozen = False if one.single else one.frozen
    r.optims.append(optim)
    if nodes:
        r.adopt(optim, r.accounts(nodes), node)
    r.doubt_owners()
    return optim


def _groups(r: Rehearsal, source: Value, node: ast.AST) -> list[tuple[Node, ...]]:
    several = isinstance(source, (list, tuple)) and all(isinstance(x, dict) for x in source)
    given = source if several else [source]
    return [tuple(events_of.nodes_of(r, one, node, "this optimizer")) for one in given]


def build_scheduler(r: Rehearsal, kind: str, args: Args, kwargs: Kwargs) -> Value:
    source = args[0] if args else kwargs.get("optimizer")
    optim = source if isinstance(source, Optim) else None
    if isinstance(source, Opaque) and isinstance(source.role, Optim):
        optim = source.role
    name = (r.hint or "scheduler").removeprefix("self.")
    return Sched(name, optim, metric="Plateau" in kind)
