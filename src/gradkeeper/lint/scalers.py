"""Loss scalers, optimizers and schedulers that were not seen being made."""

import ast

from gradkeeper.lint import events_of
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import mix
from gradkeeper.lint.values import Instance, Opaque, Optim, Scaler, Sched, Value, base
from gradkeeper.lint.vocabulary import OPTIMIZER_NAME, SCALER_NAME, SCHEDULER_NAME
from gradkeeper.model import events as ev

UPDATE_FLAGS = ("need_update", "update_grad", "update")


def as_optimizer(r: Rehearsal, value: Value, *, sure: bool = False) -> Optim | None:
    """The optimizer behind a value, if it is one."""
    if isinstance(value, Optim):
        return value
    if isinstance(value, Instance):
        inner = [one for one in value.attrs.values() if isinstance(one, Optim)]
        return inner[0] if len(inner) == 1 else None
    if not isinstance(value, Opaque) or value.flow or value.data:
        return None
    if isinstance(value.role, Optim):
        return value.role
    if value.role is not None or not (sure or _looks_like_optimizer(r, value)):
        return None
    if value.given is not None:
        value.role = value.given  # a wrapper around it
        return value.given
    nodes = list(value.hints)
    name = r.registry.unique(value.name.removeprefix("self."))
    optim = Optim(name, nodes, known=bool(nodes))
    value.role = optim
    r.optims.append(optim)
    if nodes:
        r.adopt(optim, r.accounts(nodes), r.here)
    r.doubt_owners()
    return optim


def _looks_like_optimizer(r: Rehearsal, value: Opaque) -> bool:
    last = base(value.name)
    if SCHEDULER_NAME.search(last) or SCALER_NAME.search(last):
        return False
    if OPTIMIZER_NAME.search(last):
        return True
    survey = r.frame.survey
    methods = survey.methods.get(last, set()) if survey is not None else set()
    return {"step", "zero_grad"} <= methods and "parameters" not in methods


def as_scheduler(r: Rehearsal, value: Opaque) -> Sched | None:
    if isinstance(value.role, Sched):
        return value.role
    if value.role is not None or not SCHEDULER_NAME.search(base(value.name)):
        return None
    optim = r.optims[0] if len(r.optims) == 1 else None
    sched = Sched(value.name.removeprefix("self."), optim)
    if optim is not None:
        value.role = sched
    return sched


def as_scaler(r: Rehearsal, value: Value) -> Scaler | None:
    if isinstance(value, Scaler):
        return value
    if not isinstance(value, Opaque) or not SCALER_NAME.search(base(value.name)):
        return None
    if value.role is None:
        value.role = Scaler(value.name.removeprefix("self."))
        r.scalers.append(value.role)
    return value.role if isinstance(value.role, Scaler) else None


def scale(r: Rehearsal, scaler: Scaler, loss: Value, node: ast.AST) -> Value:
    r.post(ev.Scale(site=r.site(node), scaler=scaler.name))
    if not isinstance(loss, Opaque):
        return loss
    result = mix(r, loss.name, [loss], keep=True)
    result.multiplier, result.reduction = loss.multiplier, loss.reduction
    result.scaler = scaler
    return result


def unscale(r: Rehearsal, scaler: Scaler, target: Value, node: ast.AST) -> None:
    optim = as_optimizer(r, target, sure=isinstance(target, Opaque))
    if optim is not None:
        events_of.settle_ownership(r, optim, node)
        r.post(ev.Unscale(site=r.site(node), scaler=scaler.name, optimizer=optim.name))


def scaler_step(r: Rehearsal, scaler: Scaler, target: Value, node: ast.AST) -> None:
    optim = as_optimizer(r, target, sure=isinstance(target, Opaque))
    if optim is not None:
        events_of.step(r, optim, node, scaler=scaler)


def update(r: Rehearsal, scaler: Scaler, node: ast.AST) -> None:
    r.post(ev.Update(site=r.site(node), scaler=scaler.name))


def scaler_call(r: Rehearsal, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """timm's way: `loss_scaler(loss, optimizer, clip_grad=..., need_update=...)`."""
    optim = next((found for one in args if (found := as_optimizer(r, one)) is not None), None)
    if optim is None or not args or not isinstance(args[0], Opaque):
        return Opaque("norm", data=True)
    events_of.backward(r, args[0], node)
    flag = next((kwargs[name] for name in UPDATE_FLAGS if name in kwargs), True)
    if flag is True or (isinstance(flag, Opaque) and r.choices.ask(flag.name)):
        events_of.step(r, optim, node)
    return Opaque("norm", data=True)
