"""Methods of what a rehearsal knows: modules, optimizers, scalers, gradients, lists."""

import ast
from collections.abc import Callable
from typing import Any

from gradkeeper.lint import (
    attributes,
    contexts,
    events_of,
    frameworks,
    objects,
    scalers,
    strangers,
)
from gradkeeper.lint.opaque_methods import call_opaque_method
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import PARTS, mix, modules_in, opaque_parts, parts
from gradkeeper.lint.values import (
    Accelerator,
    Context,
    Function,
    Grad,
    Instance,
    Loader,
    LossFn,
    Module,
    Opaque,
    Optim,
    Param,
    Params,
    Scaler,
    Sched,
    StateDict,
    Value,
    Wrapped,
)
from gradkeeper.lint.vocabulary import SAME_MODULE_METHODS
from gradkeeper.lint.words import words
from gradkeeper.model import events as ev

Args = list[Value]
Kwargs = dict[str, Value]
READS = words("clone copy detach pow square flatten view reshape ravel numpy mul cpu")
ADDS = words("add_ sub_ copy_ addcmul_ addcdiv_")
"""What makes a gradient of zeros into something."""


def call_method(
    r: Rehearsal, value: Value, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    handler = HANDLERS.get(type(value))
    if handler is not None:
        return handler(r, value, name, args, kwargs, node)
    return mix(r, f"{name}()", [*args, *kwargs.values()])


def _of_module(
    r: Rehearsal, value: Module, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if name in ("parameters", "named_parameters"):
        return Params((value.node,), f"{value.node.name}.parameters()", True, named=name[0] == "n")
    if name == "zero_grad":
        to_none = kwargs.get("set_to_none", args[0] if args else True) is not False
        events_of.zero(r, [value.node], node, to_none=to_none)
        return None
    if name == "requires_grad_":
        attributes.freeze(r, [value.node], args[0] if args else kwargs.get("requires_grad", True))
        return value
    if name == "eval":
        _retire(r, value)
        return value
    if name in SAME_MODULE_METHODS:
        return value
    if name == "state_dict":
        return StateDict((value.node,))
    if name == "load_state_dict":
        load(r, value.node, args, node)
        return None
    if name in ("forward", "__call__"):
        return objects.forward(r, value, args, kwargs, node)
    if name == "no_sync":
        return Context("no_sync")
    if name == "backward":
        return None
    return _of_container(r, value, name, args, kwargs, node)


def _of_container(
    r: Rehearsal, value: Module, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    items = value.items
    if name == "append" and args:
        if items is None:
            items = value.items = []
        if isinstance(items, list):
            items.append(args[0])
        for part in modules_in(args):
            r.registry.attach(part, value.node, str(len(items)), inborn=bool(r.preparing))
        return None
    if name in PARTS:
        return list(items) if isinstance(items, list) and name == "children" else parts(value, name)
    if isinstance(items, dict) and name in ("values", "keys", "items"):
        return _of_dict(r, items, name, args, kwargs, node)
    if name in ("clip_grad_norm_", "clip_grad_norm"):
        events_of.clip(r, value, args[0] if args else None, node, scale_aware=False)
        return Opaque("norm", data=True)
    values = [*args, *kwargs.values()]
    if value.node.parts:
        result = mix(r, f"{value.node.name}.{name}()", values)
        result.maybe = r.grad
        return result
    return objects.through(r, value.node, values, node)


def _retire(r: Rehearsal, value: Module) -> None:
    """`net.eval()` on a network that no optimizer owns: nobody means to train it."""
    if value.node.parent is None and value.node.trainable:
        if value.node.holds is None:
            if not any(value.node in optim.nodes for optim in r.optims) and not r.loops:
                value.node.trainable = False


def load(r: Rehearsal, module: Any, args: Args, node: ast.AST) -> None:
    source = args[0] if args else None
    disk = isinstance(source, Opaque) and source.disk
    r.post(ev.Restore(site=r.site(node), accounts=r.accounts([module]), disk=disk))


def _of_optimizer(
    r: Rehearsal, value: Optim, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if name == "step" or name.startswith("step_and_"):
        closure = args[0] if args else kwargs.get("closure")
        if isinstance(closure, (Opaque, Scaler)) or _is_number(closure):
            closure = None
        events_of.step(r, value, node, closure=closure)
        return Opaque("loss", data=True)
    if name == "zero_grad":
        to_none = kwargs.get("set_to_none", args[0] if args else True) is not False
        events_of.zero_optimizer(r, value, node, to_none=to_none)
        return None
    if name == "add_param_group":
        nodes = events_of.nodes_of(r, args[0] if args else None, node, "this group")
        value.nodes.extend(nodes)
        value.groups.append(tuple(nodes))
        r.adopt(value, r.accounts(nodes), node)
        return None
    if name == "state_dict":
        return StateDict(optimizers=(value.name,))
    if name == "backward":
        events_of.backward(r, args[0] if args else None, node)
        return None
    if name in ("clip_grad_norm", "clip_master_grads", "clip_grad_norm_"):
        events_of.clip(r, value, args[0] if args else None, node, scale_aware=True)
        return Opaque("norm", data=True)
    if name in ("register_step_pre_hook", "register_step_post_hook"):
        hooks = value.before if "pre" in name else value.after
        hooks.append(args[0] if args else kwargs.get("hook"))
        return Opaque("handle", data=True)
    if name in ("first_step", "second_step"):
        return frameworks.sharpness_step(r, value, name, args, kwargs, node)
    if name == "parameters":
        return Params(tuple(value.nodes), f"{value.name}.parameters()", whose=value)
    if name == "no_sync":
        return Context("no_sync")
    if not strangers.HARMLESS.search(name):
        # `optimizer.update_hessian()`: made for its gradients, and not a step.
        r.post(ev.Read(site=r.site(node), accounts=r.own_accounts(value)))
    return Opaque(f"{value.name}.{name}()", data=True)


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float, str)) and value is not None


def _of_scheduler(
    r: Rehearsal, value: Sched, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if name in ("step", "step_update"):
        events_of.tick(r, value, node, fed=bool(args or kwargs))
        return None
    return Opaque(f"{value.name}.{name}()", data=True)


def _of_scaler(
    r: Rehearsal, value: Scaler, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    target = args[0] if args else kwargs.get("optimizer", kwargs.get("outputs"))
    if name == "scale":
        return scalers.scale(r, value, target, node)
    if name == "unscale_":
        scalers.unscale(r, value, target, node)
    elif name == "step":
        scalers.scaler_step(r, value, target, node)
    elif name == "update":
        scalers.update(r, value, node)
    elif name == "is_enabled":
        return True
    return Opaque(f"{value.name}.{name}()", data=True)


def _of_params(
    r: Rehearsal, value: Params, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if name == "extend" or name == "append":
        nodes = events_of.nodes_of(r, args, node)
        value.nodes = (*value.nodes, *nodes)
    return None


def _of_param(
    r: Rehearsal, value: Param, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if name == "requires_grad_":
        attributes.freeze(r, value.nodes, args[0] if args else True)
        return value
    if name == "register_post_accumulate_grad_hook":
        _hook_backward(r, args[0] if args else None)
        return Opaque("handle", data=True)
    if name.endswith("_") and not name.startswith("_") and name != "retain_grad_":
        mentions = any(isinstance(one, Grad) for one in (*args, *kwargs.values()))
        # Not in the receiver: `p.add_(p.grad).add_(noise)` applies the gradient once.
        given = any(_reads_grad(one) for one in (*node.args, *node.keywords))
        contexts.move(r, value, node, uses_gradient=mentions or given)
        return value
    if name in ("detach", "clone", "item", "numel", "size", "dim", "norm", "cpu"):
        return value if name == "detach" else Opaque(f"parameter.{name}()", data=True)
    return mix(r, f"parameter.{name}()", [Opaque("p", frozenset(value.nodes)), *args])


def _hook_backward(r: Rehearsal, hook: Value) -> None:
    """An optimizer may step inside backward, parameter by parameter; a quiet hook only looks."""
    if isinstance(hook, Function):
        survey = hook.frame.survey
        if survey is None or hook.node not in survey.loud:
            return
    r.doubt("gradients are spent by a hook inside backward")


def _reads_grad(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == "grad" for one in ast.walk(node))


def _of_grad(
    r: Rehearsal, value: Grad, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    names = attributes.param_accounts(r, value.param)
    guarded = attributes.is_guarded(r, value.param)
    if name == "zero_":
        r.post(ev.Zero(site=r.site(node), accounts=names, to_none=False, guarded=guarded))
        return value
    if name in ("detach_", "requires_grad_"):
        return value
    if name.endswith("_"):
        adds = name in ADDS
        r.post(ev.Adjust(site=r.site(node), accounts=names, guarded=guarded, adds=adds))
        return value
    if name in READS:
        return attributes.read(r, value, node)
    return Opaque("gradient", data=True)


def _of_accelerator(
    r: Rehearsal, value: Accelerator, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    return frameworks.accelerator_method(r, value, name, args, kwargs, node)


def _of_list(
    r: Rehearsal, value: list[Value], name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if (opaque_parts(args) and any(one.flow or one.maybe for one in opaque_parts(args))) or any(
        isinstance(one, (Module, Optim, Params, Param, Instance)) for one in args
    ):
        r.changes += 1
    if name == "append" and args:
        if len(value) < 64:
            value.append(args[0])
        return None
    if name == "extend" and args:
        more = args[0]
        if isinstance(more, (list, tuple)):
            value.extend(more[:64])
        elif isinstance(more, Params):
            value.append(more)
            more.used = True
        return None
    if name == "pop":
        return value.pop() if value else Opaque("item")
    if name == "clear":
        value.clear()
        return None
    if name == "copy":
        return list(value)
    return mix(r, f"list.{name}()", value)


def _of_dict(
    r: Rehearsal, value: dict[Any, Value], name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if name == "values":
        return list(value.values())
    if name == "items":
        return list(value.items())
    if name == "keys":
        return list(value)
    if name in ("get", "pop", "setdefault") and args and isinstance(args[0], (str, int)):
        default = args[1] if len(args) > 1 else None
        return value.get(args[0], default)
    if name == "update" and args and isinstance(args[0], dict):
        value.update(args[0])
        return None
    if name == "copy":
        return dict(value)
    return Opaque(f"dict.{name}()")


def _of_instance(
    r: Rehearsal, value: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    return frameworks.inherited_method(r, value, name, args, kwargs, node)


def _of_loader(
    r: Rehearsal, value: Loader | Wrapped, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    return Opaque(f"{_name_of(value)}.{name}()", data=True)


def _name_of(value: Value) -> str:
    """`enumerate(loader)` has no name of its own, and goes by that of what it walks."""
    if isinstance(value, Wrapped):
        return f"{value.kind}({', '.join(map(_name_of, value.of))})"
    return str(getattr(value, "name", type(value).__name__))


def _of_loss(
    r: Rehearsal, value: LossFn, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    return value


def _of_state(
    r: Rehearsal, value: StateDict, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    return value


HANDLERS: dict[type, Callable[[Rehearsal, Any, str, Args, Kwargs, ast.Call], Value]] = {
    Module: _of_module,
    Optim: _of_optimizer,
    Sched: _of_scheduler,
    Scaler: _of_scaler,
    Params: _of_params,
    Param: _of_param,
    Grad: _of_grad,
    Accelerator: _of_accelerator,
    Opaque: call_opaque_method,
    list: _of_list,
    dict: _of_dict,
    Instance: _of_instance,
    Loader: _of_loader,
    Wrapped: _of_loader,
    LossFn: _of_loss,
    StateDict: _of_state,
}
