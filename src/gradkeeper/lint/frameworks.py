"""Frameworks that stand between the code and its optimizers: Accelerate, Fabric, Lightning, SAM."""

import ast

from gradkeeper.lint import attributes, events_of, functions
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import mix
from gradkeeper.lint.values import (
    Accelerator,
    Context,
    Function,
    Instance,
    Module,
    Opaque,
    Optim,
    Params,
    Sched,
    Value,
)
from gradkeeper.lint.words import words
from gradkeeper.model import events as ev

Args = list[Value]
Kwargs = dict[str, Value]
PREPARES = words(
    """prepare prepare_model prepare_optimizer prepare_scheduler
    setup setup_module setup_optimizers setup_dataloaders"""
)


def accelerator_method(
    r: Rehearsal, value: Accelerator, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if name == "backward":
        loss = args[0] if args else kwargs.get("loss")
        # A short window's weight is Accelerate's doing, not the loop's.
        steps = None if value.short else value.steps
        events_of.backward(r, loss, node, divided_by=steps)
        return None
    if name in PREPARES:
        return _prepare(value, args)
    if name in ("accumulate",):
        return Context("accumulate", value)
    if name in ("no_sync", "no_backward_sync"):
        enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
        return Context("no_sync" if enabled is True else "pass")
    if name in ("clip_grad_norm_", "clip_grad_value_", "clip_gradients"):
        if value.sync:
            events_of.clip(r, _clip_target(args), None, node, scale_aware=True)
        return Opaque("norm", data=True)
    if name in ("unwrap_model", "prepare_data_loader"):
        return args[0] if args else None
    if name == "autocast":
        return Context("autocast", None)
    if name == "gather":
        return Opaque("gathered", data=True)
    return mix(r, f"accelerator.{name}()", [*args, *kwargs.values()])


def _prepare(value: Accelerator, args: Args) -> Value:
    """Hands back what it was given; from now on steps outside a window's end are no-ops."""
    for one in args:
        if isinstance(one, (Optim, Sched, Module)):
            one.accelerator = value
        elif isinstance(one, Opaque) and isinstance(one.role, (Optim, Sched)):
            one.role.accelerator = value
    return tuple(args) if len(args) != 1 else args[0]


def _clip_target(args: Args) -> Value:
    """Fabric is given a module and an optimizer, Accelerate parameters."""
    for one in args:
        if isinstance(one, Optim):
            return one
    return args[0] if args else None


def inherited_method(
    r: Rehearsal, value: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    """A method that an object of the program has from a library's base class."""
    if name == "manual_backward":
        events_of.backward(r, args[0] if args else kwargs.get("loss"), node)
        return None
    if name == "optimizers":
        return _lightning_optimizers(r, value, node)
    if name == "lr_schedulers":
        return Opaque("schedulers", data=True)
    if name in ("toggle_optimizer", "untoggle_optimizer"):
        return _toggle(value, name, args)
    if name == "clip_gradients":
        target = args[0] if args else kwargs.get("optimizer")
        events_of.clip(r, target, None, node)
        return None
    if name in ("parameters", "named_parameters"):
        nodes = [one.node for one in value.attrs.values() if isinstance(one, Module)]
        leaves = [one.leaf for one in value.attrs.values() if isinstance(one, Opaque)]
        nodes += [one for one in leaves if one is not None]
        if nodes:
            return Params(tuple(nodes), "self.parameters()", True, named=name[0] == "n")
    return _unknown_method(r, value, name, args, kwargs, node)


def _unknown_method(
    r: Rehearsal, value: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if not value.cls.bases and not value.attrs:
        return mix(r, f"{name}()", [*args, *kwargs.values()])
    from gradkeeper.lint.calls import call_opaque

    stand_in = Opaque(f"self.{name}")
    return call_opaque(r, stand_in, args, kwargs, node)


def _lightning_optimizers(r: Rehearsal, value: Instance, node: ast.Call) -> Value:
    known = value.attrs.get("__optimizers__")
    if known is not None:
        return known
    method = attributes.member(value.cls, "configure_optimizers")
    found: Value = None
    if isinstance(method, Function):
        found = _optimizers_in(functions.enter(r, attributes.bind(r, method, value), [], {}, node))
    if found is None:
        found = Opaque("optimizer")
    value.attrs["__optimizers__"] = found
    return found


def _optimizers_in(value: Value) -> Value:
    """configure_optimizers returns one, a list, a dict, or lists of optimizers and schedulers."""
    if isinstance(value, Optim):
        return value
    if isinstance(value, dict) and "optimizer" in value:
        return value["optimizer"]
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and isinstance(value[0], (list, tuple)):
            value = value[0]
        found = [_optimizers_in(one) for one in value]
        known = [one for one in found if one is not None]
        return known[0] if len(known) == 1 else known or None
    return None


def _toggle(value: Instance, name: str, args: Args) -> Value:
    """Lightning's toggle freezes what the other optimizers own."""
    optim = args[0] if args else None
    optims = value.attrs.get("__optimizers__")
    if isinstance(optim, Optim) and isinstance(optims, list):
        for other in optims:
            if isinstance(other, Optim) and other is not optim:
                for one in other.nodes:
                    if one not in optim.nodes:
                        one.frozen = name == "toggle_optimizer"
    return None


def sharpness_step(
    r: Rehearsal, value: Optim, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    """SAM moves the weights twice: its first step is no update."""
    if name == "first_step":
        r.post(ev.Move(site=r.site(node), accounts=r.own_accounts(value)))
    else:
        events_of.step(r, value, node)
    zeroes = kwargs.get("zero_grad", args[0] if args else False)
    if zeroes is True:
        events_of.zero_optimizer(r, value, node)
    return None
