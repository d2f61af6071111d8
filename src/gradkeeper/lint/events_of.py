"""The calls that make events: backward, step, zero, clip, and what lies between."""

import ast
from collections.abc import Iterable

from gradkeeper.lint.nodes import Node
from gradkeeper.lint.rehearsal import FaultError, Rehearsal
from gradkeeper.lint.values import (
    External,
    Function,
    Grad,
    Module,
    Opaque,
    Optim,
    Param,
    Params,
    Partial,
    Scaler,
    Sched,
    StateDict,
    Value,
)
from gradkeeper.lint.vocabulary import STEPS_ITSELF
from gradkeeper.model import events as ev

STRAY = ("?",)
"""Stands for the accounts of whoever steps next, until the whole tape is known."""


def backward(r: Rehearsal, loss: Value, node: ast.AST, *, divided_by: int | None = 1) -> None:
    tensor = loss if isinstance(loss, Opaque) else Opaque("loss", maybe=True)
    names = _credited(r, tensor, node)
    multiplier = tensor.multiplier
    if multiplier is not None:
        multiplier = multiplier / divided_by if divided_by else None
    leaves = [one for one in tensor.flow if one.single and not _adopted(r, one)]
    leaves = [one for one in leaves if not one.asked_for]
    r.count_backward()
    reduction = tensor.reduction if tensor.reduction in ("mean", "sum") else None
    r.post(
        ev.Backward(
            site=r.site(node),
            accounts=names,
            multiplier=multiplier,
            reduction=reduction,  # type: ignore[arg-type]
            leaf=bool(leaves),
            scaler=tensor.scaler.name if tensor.scaler else None,
            autocast=tensor.autocast if tensor.scaler is None else None,
            coupled=any(one.coupled for one in tensor.flow),
            synced=_synced(r, tensor),
            within=r.within.name if r.within else None,
            unseen=_of_unknown_origin(r, tensor),
        )
    )

    if r.faulty is not None:
        r.failing += 1
        if r.failing == 2:
            r.post(ev.Fault(site=r.site(node), accounts=names, torn=True))
            raise FaultError


def _adopted(r: Rehearsal, node: Node) -> bool:
    return node.holds is not None and node.holds in r.owned


def _synced(r: Rehearsal, tensor: Opaque) -> bool | None:
    if r.unsynced:
        r.spoke_of_sync = True
        return False
    if r.spoke_of_sync or any(one.synced for one in tensor.flow):
        return True
    return None


def _of_unknown_origin(r: Rehearsal, loss: Opaque) -> bool:
    """Through code that was not seen, it may reach parameters that some optimizer owns."""
    if not loss.maybe and loss.flow and not any(one.of_unseen_class for one in loss.flow):
        return False
    return any(node.live() for optim in r.optims for node in optim.nodes)


def _credited(r: Rehearsal, loss: Opaque, node: ast.AST) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for one in [one for one in loss.flow if not one.asked_for] or loss.flow:
        live = r.registry.live_accounts(one) or r.registry.accounts(one)
        found.update(dict.fromkeys(live))
    stranger = r.stranger()
    if loss.maybe or not found:
        found.update(dict.fromkeys(_presumed(r, loss, found)))
    _note_inputs(r, loss)
    if stranger:
        r.adopt(stranger, _free(r, found), node)
    r.credited.update({name: None for name in found if name not in STRAY})
    return tuple(sorted(found))


def _note_inputs(r: Rehearsal, loss: Opaque) -> None:
    """Beside a module, a tensor that collects gradients is its input."""
    if not all(one.single for one in loss.flow):
        inputs = [one.holds for one in loss.flow if one.single and not one.trainable]
        r.inputs.update(name for name in inputs if name is not None)


def _free(r: Rehearsal, found: Iterable[str]) -> list[str]:
    """What an optimizer of unknown parameters may own."""
    return [name for name in found if name not in r.owned and name not in r.inputs]


def _presumed(r: Rehearsal, loss: Opaque, found: dict[str, None]) -> tuple[str, ...]:
    """What a loss of unknown origin is taken to reach: all there is, if only one owns it."""
    if not r.optims:
        return () if found else r.accounts([r.the_world()])
    if len(r.optims) == 1:
        optim = r.optims[0]
        if not optim.known:
            return (*r.accounts([r.the_world()]), *r.own_accounts(optim))
        return r.own_accounts(optim)
    return STRAY


def zero(
    r: Rehearsal,
    nodes: Iterable[Node],
    node: ast.AST,
    *,
    to_none: bool = True,
    guarded: bool = True,
) -> None:
    names = dict.fromkeys(r.accounts(nodes))
    if r.world is not None and any(not one.single for one in nodes):
        names.update(dict.fromkeys(r.accounts([r.world])))
    _zero_accounts(r, tuple(names), node, to_none=to_none, guarded=guarded)


def _zero_accounts(
    r: Rehearsal,
    names: tuple[str, ...],
    node: ast.AST,
    *,
    to_none: bool = True,
    guarded: bool = True,
) -> None:
    r.post(
        ev.Zero(
            site=r.site(node),
            accounts=names,
            to_none=to_none,
            guarded=guarded,
            within=r.within.name if r.within else None,
        )
    )


def zero_optimizer(r: Rehearsal, optim: Optim, node: ast.AST, *, to_none: bool = True) -> None:
    if _off_sync(r, optim):
        return
    settle_ownership(r, optim, node)
    _zero_accounts(r, r.own_accounts(optim), node, to_none=to_none)


def settle_ownership(r: Rehearsal, optim: Optim, node: ast.AST) -> None:
    """An optimizer of unknown parameters owns what got gradients and has no owner."""
    if optim.known:
        return
    if r.stranger() is optim:
        r.adopt(optim, _free(r, r.credited) or r.accounts([r.the_world()]), node)


def _off_sync(r: Rehearsal, of: Optim | Sched) -> bool:
    """Inside a window of Accelerate, where steps of what it has prepared do nothing."""
    accelerator = of.accelerator
    if accelerator is None and isinstance(of, Optim) and not of.known:
        accelerator = r.ctx_accelerator
    return accelerator is not None and not accelerator.sync


def step(
    r: Rehearsal,
    optim: Optim,
    node: ast.AST,
    *,
    scaler: Scaler | None = None,
    closure: Value = None,
) -> None:
    if _off_sync(r, optim):
        return
    settle_ownership(r, optim, node)
    _run_hooks(r, optim, optim.before, node)
    spends = closure is None or optim.kind not in STEPS_ITSELF
    if closure is not None:
        start = len(r.tape)
        _evaluate(r, optim, closure, node)
        # One that zeroes by itself is evaluated as often as L-BFGS likes.
        spends = spends or not any(isinstance(one, ev.Zero) for one in r.tape[start:])
    r.count_step()
    if spends:
        name = scaler.name if scaler else None
        r.post(ev.Step(site=r.site(node), optimizer=optim.name, scaler=name))
    _run_hooks(r, optim, optim.after, node)


def _evaluate(r: Rehearsal, optim: Optim, closure: Value, node: ast.AST) -> None:
    from gradkeeper.lint.calls import call_value

    r.within = optim
    call_value(r, closure, [], {}, node)  # type: ignore[arg-type]
    r.within = None


def _run_hooks(r: Rehearsal, optim: Optim, hooks: list[Value], node: ast.AST) -> None:
    """`register_step_pre_hook` and `register_step_post_hook`: (optimizer, args, kwargs)."""
    from gradkeeper.lint.calls import call_value

    for hook in hooks:
        if isinstance(hook, (Function, Partial)):
            call_value(r, hook, [optim, [], {}], {}, node)  # type: ignore[arg-type]
        else:
            r.doubt("a step runs a hook that is not seen")


def tick(r: Rehearsal, sched: Sched, node: ast.AST, *, fed: bool) -> None:
    if sched.optim is None or _off_sync(r, sched):
        return
    metric = sched.metric or fed
    r.post(
        ev.Tick(site=r.site(node), scheduler=sched.name, optimizer=sched.optim.name, metric=metric)
    )


def clip(
    r: Rehearsal, target: Value, bound: Value, node: ast.AST, *, scale_aware: bool = False
) -> None:
    names = clipped_accounts(r, target, node)
    if names:
        known = float(bound) if isinstance(bound, (int, float)) else None
        if isinstance(bound, External) and bound.name.endswith(".inf"):
            known = float("inf")
        r.post(ev.Clip(site=r.site(node), accounts=names, bound=known, scale_aware=scale_aware))


def clipped_accounts(r: Rehearsal, target: Value, node: ast.AST) -> tuple[str, ...]:
    nodes = nodes_of(r, target, node)
    if nodes:
        names = dict.fromkeys(r.accounts(nodes))
        if r.stranger() and r.world is not None:
            names.update(dict.fromkeys(r.accounts([r.world])))
        return tuple(names)
    if len(r.optims) == 1 and isinstance(target, Opaque):
        return r.own_accounts(r.optims[0])
    if r.stranger() is None and not r.optims and r.world is not None:
        return r.accounts([r.world])
    return ()


def nodes_of(r: Rehearsal, value: Value, where: ast.AST, use: str = "this call") -> list[Node]:
    """The modules and parameters that a value stands for; uses up one-shot iterators."""
    found: dict[Node, None] = {}
    _gather(r, value, where, use, found, 0)
    return list(found)


def _gather(
    r: Rehearsal, value: Value, where: ast.AST, use: str, found: dict[Node, None], depth: int
) -> None:
    if depth > 6:
        return
    if isinstance(value, Params):
        if value.oneshot and value.used:
            r.post(ev.Exhaust(site=r.site(where), use=use))
            return
        value.used = True
        found.update(dict.fromkeys(value.nodes))
    elif isinstance(value, Param):
        found.update(dict.fromkeys(value.nodes))
    elif isinstance(value, Module):
        found[value.node] = None
    elif isinstance(value, Optim):
        found.update(dict.fromkeys(value.nodes))
    elif isinstance(value, Opaque):
        if value.leaf is not None:
            found[value.leaf] = None
        elif value.node is not None:
            found[value.node] = None
        else:
            found.update(dict.fromkeys(value.hints))
    elif isinstance(value, dict):
        values = [value["params"]] if "params" in value else list(value.values())
        for one in values:
            _gather(r, one, where, use, found, depth + 1)
    elif isinstance(value, (list, tuple)):
        for one in value:
            _gather(r, one, where, use, found, depth + 1)


def save(r: Rehearsal, value: Value, node: ast.AST) -> None:
    nodes: dict[Node, None] = {}
    optimizers: dict[str, None] = {}
    _saved(value, nodes, optimizers, 0)
    if nodes:
        r.post(
            ev.Save(
                site=r.site(node),
                accounts=r.accounts(nodes),
                optimizers=tuple(optimizers),
                gradients=_holds_gradients(value, 0),
            )
        )


def _holds_gradients(value: Value, depth: int) -> bool:
    if isinstance(value, Grad):
        return True
    if isinstance(value, Opaque):
        return value.gradient
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and depth < 4:
        return any(_holds_gradients(one, depth + 1) for one in value)
    return False


def _saved(value: Value, nodes: dict[Node, None], optimizers: dict[str, None], depth: int) -> None:
    if depth > 4:
        return
    if isinstance(value, StateDict):
        nodes.update(dict.fromkeys(value.nodes))
        optimizers.update(dict.fromkeys(value.optimizers))
    elif isinstance(value, Module):
        nodes[value.node] = None
    elif isinstance(value, dict):
        for one in value.values():
            _saved(one, nodes, optimizers, depth + 1)
    elif isinstance(value, (list, tuple)):
        for one in value:
            _saved(one, nodes, optimizers, depth + 1)
