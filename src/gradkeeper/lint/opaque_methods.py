"""Methods of things that are not known: what they are is told by what is asked of them."""

import ast
import re
from collections.abc import Callable

from gradkeeper.lint import attributes, events_of, frameworks, objects, scalers, strangers
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import PARTS, cut, mix, modules_in, parts
from gradkeeper.lint.values import (
    DISTRIBUTION,
    Accelerator,
    Context,
    Grad,
    Opaque,
    Optim,
    Param,
    Params,
    Scaler,
    Sched,
    StateDict,
    Value,
    base,
)
from gradkeeper.lint.vocabulary import CUTS, OPTIMIZER_NAME, SAME_MODULE_METHODS, SCALER_NAME

Args = list[Value]
Kwargs = dict[str, Value]
ENGINE_NAME = re.compile(
    r"engine|accelerat|fabric|manager|strategy|amp|optim|scaler|^self$|trainer|model|deepspeed|booster"
)
ACCELERATOR_NAME = re.compile(r"accelerat|fabric")
LENGTH_KEEPING = frozenset({"float", "long", "cuda", "cpu", "to", "double", "requires_grad_"})


def call_opaque_method(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if value.role is not None:
        return _of_role(r, value, name, args, kwargs, node)
    handler = TABLE.get("step" if name.startswith("step_and_") else name)
    if handler is not None:
        found = handler(r, value, name, args, kwargs, node)
        if found is not UNHANDLED:
            return found
    if value.leaf is not None and name.endswith("_") and name != "requires_grad_":
        from gradkeeper.lint.methods import call_method

        return call_method(r, Param((value.leaf,)), name, args, kwargs, node)
    if name in CUTS:
        result = cut(f"{value.name}.{name}()")
        result.data = True
        return result
    return _computed(r, value, name, args, kwargs)


class _Unhandled:
    pass


UNHANDLED = _Unhandled()


def _of_role(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    from gradkeeper.lint.methods import call_method

    if not isinstance(value.role, str):
        return call_method(r, value.role, name, args, kwargs, node)
    if value.role == "off":
        return _disabled_scaler(r, name, args, node)
    if value.role == DISTRIBUTION:
        if name in ("sample", "sample_n"):  # rsample() lets gradients through
            return cut(f"{value.name}.{name}()")
        return _computed(r, value, name, args, kwargs)
    return mix(r, f"{value.name}.{name}()", [*args, *kwargs.values()])


def _disabled_scaler(r: Rehearsal, name: str, args: Args, node: ast.Call) -> Value:
    """GradScaler(enabled=False) passes everything through."""
    if name == "scale":
        return args[0] if args else None
    if name == "step" and args:
        optim = scalers.as_optimizer(r, args[0])
        if optim is not None:
            events_of.step(r, optim, node)
    return None


def _computed(r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs) -> Opaque:
    values = [value, *args, *kwargs.values()]
    given = None if value.data else strangers.meet(r, name, values[1:])
    constant = all(isinstance(one, (str, int, float, bool)) for one in (*args, *kwargs.values()))
    inner = ", ".join(map(repr, args)) if constant else ""
    result = mix(r, f"{value.name}.{name}({inner})"[:60], values)
    result.disk = value.disk
    if value.data:
        result.data = True
        if name in LENGTH_KEEPING:
            result.length = value.length
        elif name in ("split", "chunk") and isinstance(value.length, int):
            result.length = _split(value.length, name, args)
        return result
    if value.flow or value.maybe:
        result.multiplier = value.multiplier
        result.reduction = value.reduction if name in ("to", "float", "squeeze", "cuda") else None
        return result
    result.hints = modules_in([*args, *kwargs.values()]) or value.hints
    result.given = given
    if value.node is not None and r.grad:
        if value.node.parts or not value.node.live():
            result.maybe = True
        else:
            result.flow |= {value.node}
    elif r.grad and not constant and not result.flow:
        result.maybe = True
    return result


def _split(length: int, name: str, args: Args) -> int | None:
    size = args[0] if args else None
    if not isinstance(size, int) or size <= 0:
        return None
    return size if name == "chunk" else -(-length // size)


def _backward(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    connected = value.flow or value.maybe
    last = base(value.name)
    given = args[0] if args else kwargs.get("loss")
    if not connected and isinstance(given, Opaque) and ENGINE_NAME.search(last):
        survey = r.frame.survey
        methods = survey.methods.get(last, set()) if survey is not None else set()
        if ACCELERATOR_NAME.search(last):
            value.role = Accelerator(None)
            return frameworks.accelerator_method(r, value.role, name, args, kwargs, node)
        if OPTIMIZER_NAME.search(last) and "zero_grad" in methods:
            events_of.backward(r, given, node)
            return None
        value.role = "engine"
        return None
    events_of.backward(r, value, node)
    return None


def _step(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if value.data or value.flow:
        return UNHANDLED
    scaler = scalers.as_scaler(r, value) if args else None
    if scaler is not None:
        scalers.scaler_step(r, scaler, args[0], node)
        return None
    sched = scalers.as_scheduler(r, value)
    if sched is not None:
        events_of.tick(r, sched, node, fed=bool(args or kwargs))
        return None
    optim = scalers.as_optimizer(r, value)
    if optim is None:
        return UNHANDLED
    from gradkeeper.lint.methods import call_method

    return call_method(r, optim, name, args, kwargs, node)


def _zero_grad(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    from gradkeeper.lint.methods import call_method

    optim = None if value.node is not None else scalers.as_optimizer(r, value)
    if optim is not None:
        return call_method(r, optim, name, args, kwargs, node)
    to_none = kwargs.get("set_to_none", True) is not False
    events_of.zero(r, [objects.as_module(r, value)], node, to_none=to_none)
    return None


def _scaler_method(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    from gradkeeper.lint.methods import call_method

    if value.data or value.flow or not SCALER_NAME.search(base(value.name)):
        return UNHANDLED
    scaler = scalers.as_scaler(r, value)
    return call_method(r, scaler, name, args, kwargs, node)


def _parameters(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if value.flow or value.data:
        return UNHANDLED
    module = objects.as_module(r, value)
    return Params((module,), f"{value.name}.parameters()", True, named=name[0] == "n")


def _same(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    """`.to(device)` and the like, for modules and tensors alike."""
    if name == "requires_grad_":
        return _requires_grad(r, value, args)
    if name == "eval" and value.node is not None and value.node.holds is None:
        value.node.trainable = False
    return value


def _requires_grad(r: Rehearsal, value: Opaque, args: Args) -> Value:
    trains = args[0] if args else True
    if value.node is not None:
        attributes.freeze(r, [value.node], trains)
    elif trains is True and value.leaf is None:
        if value.flow or value.maybe:
            return value
        attributes.make_leaf(r, value)
        value.data = False
    elif value.leaf is None and not value.data and not value.flow:
        attributes.freeze(r, [objects.as_module(r, value)], trains)
    return value


def _detached(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    return Opaque(f"{value.name}.detach()"[:60], data=True, length=value.length, disk=value.disk)


def _mean(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if not (value.flow or value.maybe):
        return UNHANDLED
    result = mix(r, f"{value.name}.{name}()"[:60], [value], keep=True)
    result.multiplier = value.multiplier
    if not args and not kwargs:
        result.reduction = name if value.reduction is None else value.reduction
    return result


def _state_dict(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if value.node is not None:
        return StateDict((value.node,))
    optim = scalers.as_optimizer(r, value)
    if optim is not None:
        return StateDict(optimizers=(optim.name,))
    return StateDict()


def _load(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if value.node is not None:
        from gradkeeper.lint.methods import load

        load(r, value.node, args, node)
    return None


def _clip(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    """`accelerator.clip_grad_norm_(params, 1.0)`, `model.clip_grad_norm_(1.0)`."""
    aware = bool(ACCELERATOR_NAME.search(base(value.name)))
    if args and not isinstance(args[0], (int, float)):
        bound = args[1] if len(args) > 1 else kwargs.get("max_norm")
        events_of.clip(r, args[0], bound, node, scale_aware=aware)
    elif value.node is not None:
        events_of.clip(r, Params((value.node,), value.name), args[0] if args else None, node)
    return Opaque("norm", data=True)


def _context(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if name in ("no_sync", "no_backward_sync"):
        return Context("no_sync")
    if ACCELERATOR_NAME.search(base(value.name)):
        value.role = Accelerator(None)
        return frameworks.accelerator_method(r, value.role, name, args, kwargs, node)
    return UNHANDLED


def _parts(
    r: Rehearsal, value: Opaque, name: str, args: Args, kwargs: Kwargs, node: ast.Call
) -> Value:
    if value.flow or value.data:
        return UNHANDLED
    objects.as_module(r, value)
    return parts(value, name)


TABLE: dict[str, Callable[[Rehearsal, Opaque, str, Args, Kwargs, ast.Call], Value]] = {
    "backward": _backward,
    "step": _step,
    "step_update": _step,
    "zero_grad": _zero_grad,
    "scale": _scaler_method,
    "unscale_": _scaler_method,
    "update": _scaler_method,
    **dict.fromkeys(PARTS, _parts),
    "parameters": _parameters,
    "named_parameters": _parameters,
    **dict.fromkeys(SAME_MODULE_METHODS - {"float", "apply", "double", "half"}, _same),
    "detach": _detached,
    "mean": _mean,
    "sum": _mean,
    "state_dict": _state_dict,
    "load_state_dict": _load,
    "clip_grad_norm_": _clip,
    "clip_grad_value_": _clip,
    "clip_grad_norm": _clip,
    "clip_gradients": _clip,
    "no_sync": _context,
    "no_backward_sync": _context,
    "accumulate": _context,
    "prepare": _context,
}

__all__ = ["Grad", "Optim", "Scaler", "Sched", "call_opaque_method"]
