"""What PyTorch's own functions and classes do, and builtins."""

import ast
import re
from collections.abc import Callable

from gradkeeper.lint import attributes, contexts, events_of, loops, strangers, surroundings
from gradkeeper.lint.losses import functional_loss, loss_class
from gradkeeper.lint.nodes import Node
from gradkeeper.lint.owners import build_optimizer, build_scheduler, is_optimizer, is_scheduler
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import mix, modules_in, opaque_parts, without_params
from gradkeeper.lint.values import (
    DISTRIBUTION,
    Accelerator,
    Context,
    Grad,
    Loader,
    Module,
    Opaque,
    Optim,
    Param,
    Params,
    Partial,
    Scaler,
    Shortened,
    Value,
    base,
)
from gradkeeper.lint.vocabulary import (
    CLIPS,
    COUPLED,
    CUT_FUNCTIONS,
    DDP,
    FUNCTIONAL_LOSSES,
    LAYERS,
    PASS_FIRST,
    WRAPPERS,
)
from gradkeeper.model import events as ev

Args = list[Value]
Kwargs = dict[str, Value]
External_ = Callable[[Rehearsal, str, Args, Kwargs, ast.AST], Value]
SILENT = frozenset({"DistributedOptimizer", "PostLocalSGDOptimizer"})
WRAPS_OPTIMIZER = re.compile(r"optim|lookahead|swa|ema|noam", re.I)
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
PLAIN = ("torch.", "F.", "np.", "numpy.", "math.", "random.", "os.", "time.", "json.")


def call(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A call of a name out of another package."""
    last = base(name)
    handler = TABLE.get(last)
    if handler is not None:
        return handler(r, name, args, kwargs, node)
    if last in SILENT and not (args and isinstance(args[0], Optim)):
        return Opaque(name, role="silent")  # by RPC; Horovod's wraps an optimizer
    if is_scheduler(name, last):
        return build_scheduler(r, last, args, kwargs)
    if args and isinstance(args[0], Optim) and WRAPS_OPTIMIZER.search(last):
        return args[0]
    if is_optimizer(name, last):
        return build_optimizer(r, last, args, kwargs, node)
    if last.startswith("_foreach_") and last.endswith("_"):
        return _foreach(r, name, args, kwargs, node)
    if last.endswith("Loss") and last[:1].isupper() and not modules_in(args):
        return loss_class(r, name, args, kwargs, node)
    if last in FUNCTIONAL_LOSSES:
        return functional_loss(r, last, args, kwargs)
    if last in WRAPPERS and args:
        return _wrap(r, last, args[0])
    if last in PASS_FIRST and args:
        return args[0]
    if last in CLIPS:
        return _clip(r, name, args, kwargs, node)
    if _is_layer(name, last):
        return _layer(r, name, last, args, kwargs)
    return unknown(r, name, last, args, kwargs)


def _is_layer(name: str, last: str) -> bool:
    if not last[:1].isupper():
        return False
    return name.startswith(("torch.nn.", "nn.")) or ".nn." in name or ".models." in name


def _has_weights(name: str, last: str, kwargs: Kwargs) -> bool:
    """Activations have none, norms need not, and a library's model need not be a module."""
    if last.startswith("InstanceNorm"):
        return kwargs.get("affine") is True
    if kwargs.get("affine") is False or kwargs.get("elementwise_affine") is False:
        return False
    if ".models." in name:
        return False
    ours = name.startswith(("torch.nn.", "nn."))
    return not ours or last in LAYERS or last in CONTAINERS


def _layer(r: Rehearsal, name: str, last: str, args: Args, kwargs: Kwargs) -> Value:
    weighs = _has_weights(name, last, kwargs)
    node = Node(r.hint or last, coupled=last in COUPLED, solid=weighs and last in LAYERS)
    node.trainable = weighs
    made = Module(node, ready=True)
    if last not in CONTAINERS:
        for index, part in enumerate(modules_in([*args, *kwargs.values()])):
            r.registry.attach(part, node, str(index), inborn=bool(r.preparing))
    if last in CONTAINERS:
        items: list[Value] | dict[str, Value] = list(args)
        if len(args) == 1 and isinstance(args[0], (list, dict)):
            items = args[0]
        made.items = items
        values = list(items.values()) if isinstance(items, dict) else items
        parts = modules_in(values)
        for index, part in enumerate(parts):
            r.registry.attach(part, node, str(index), inborn=bool(r.preparing))
        node.coupled = any(part.coupled for part in parts)
        node.solid = any(part.solid for part in parts)
        node.listed = parts if last == "Sequential" else ()
        if last != "Sequential":
            if isinstance(items, dict):
                for key, part_value in items.items():
                    if isinstance(part_value, Module):
                        part_value.node.name = f"{node.name}.{key}"
    return made


def unknown(r: Rehearsal, name: str, last: str, args: Args, kwargs: Kwargs) -> Value:
    values = [*args, *kwargs.values()]
    if last in CUT_FUNCTIONS:
        return Opaque(name, data=True, length=_first_size(args))
    plain = name.startswith(PLAIN)
    given = None if plain else strangers.meet(r, name, values)
    result = mix(r, r.hint or f"{name}()", values if plain else without_params(values))
    result.hints = modules_in(values)
    result.given = given
    result.data = plain
    if name.startswith("torch.distributions.") and last[:1].isupper():
        result.role = DISTRIBUTION
    # A function that is given a module is likely to run it.
    result.maybe = result.maybe or (r.grad and not plain and bool(result.hints))
    return result


def _first_size(args: Args) -> int | None:
    for one in args:
        if isinstance(one, int) and not isinstance(one, bool):
            return one.whole if isinstance(one, Shortened) else one
        if isinstance(one, (tuple, list)) and one and isinstance(one[0], int):
            return one[0]
    return None


def _wrap(r: Rehearsal, last: str, value: Value) -> Value:
    node = value.node if isinstance(value, (Module, Opaque)) else None
    if isinstance(value, Opaque) and node is None:
        from gradkeeper.lint.objects import as_module

        if not value.flow:
            node = as_module(r, value)
    if node is not None and last in DDP:
        node.synced = True
    return value


def _clip(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    target = args[0] if args else kwargs.get("parameters")
    keys = ("max_norm", "clip_value", "value")
    bound = args[1] if len(args) > 1 else next((kwargs[k] for k in keys if k in kwargs), None)
    events_of.clip(r, target, bound, node)
    return Opaque("norm", data=True)


def _grad_scaler(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if kwargs.get("enabled", True) is False:
        return Opaque("scaler", role="off")
    scaler = Scaler((r.hint or "scaler").removeprefix("self."))
    r.scalers.append(scaler)
    return scaler


def _parameter(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = Opaque(r.hint or "parameter")
    attributes.make_leaf(r, value, trainable=True)
    return value


def _variable(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """torch.autograd.Variable: what it is given, or a leaf that collects gradients."""
    if kwargs.get("requires_grad", args[1] if len(args) > 1 else False) is not True:
        return args[0] if args else kwargs.get("data")
    value = Opaque(r.hint or "variable")
    attributes.make_leaf(r, value)
    return value


def _deepcopy(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else None
    if isinstance(value, Module):
        return Module(Node(r.hint or "copy", trainable=False), value.cls, value.arguments)
    if isinstance(value, Opaque) and value.node is not None:
        return Opaque(r.hint or "copy", node=Node(r.hint or "copy", trainable=False))
    return value


def _save(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and name.startswith(("torch", "accelerate", "safetensors")):
        events_of.save(r, args[0], node)
    return None


def _load(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Opaque(r.hint or "loaded", disk=name.startswith("torch"), data=True)


def _accelerator(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    steps = kwargs.get("gradient_accumulation_steps", 1)
    if "gradient_accumulation_plugin" in kwargs:
        steps = 2
    if isinstance(steps, Opaque):
        steps = 2
    return Accelerator(steps if isinstance(steps, int) else 1)


def _partial(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Partial(args[0], args[1:], kwargs) if args else Opaque("partial")


def _backward(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """torch.autograd.backward(loss); the RPC form keeps its gradients to itself."""
    if "dist" not in name and args:
        losses = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
        events_of.backward(r, mix(r, "losses", losses, keep=True), node)
    return None


def _autograd_grad(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if name.endswith("func.grad"):
        return Opaque("grad function", data=True)
    r.asked_for_gradients = True
    create = kwargs.get("create_graph", False)
    if create is False:
        return Opaque("gradients", data=True)
    for one in opaque_parts([args[1] if len(args) > 1 else kwargs.get("inputs")]):
        if one.leaf is not None:
            one.leaf.asked_for = True
    return mix(r, "gradients", args)


def _foreach(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """torch._foreach_zero_(grads) and its like: one call in place of a loop over parameters."""
    targets = args[0] if args and isinstance(args[0], (list, tuple)) else []
    uses_gradient = any(isinstance(one, Grad) for one in _flat(args[1:]))
    for one in targets:
        if isinstance(one, Grad):
            names = attributes.param_accounts(r, one.param)
            zeroes = name.endswith("_foreach_zero_")
            kind = ev.Zero(site=r.site(node), accounts=names, to_none=False) if zeroes else None
            r.post(kind or ev.Adjust(site=r.site(node), accounts=names))
        elif isinstance(one, Param):
            contexts.move(r, one, node, uses_gradient=uses_gradient)
    return None


def _flat(values: Args) -> Args:
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def _averaged(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """swa_utils.AveragedModel: a copy that nobody trains."""
    return _deepcopy(r, name, args, kwargs, node)


def _hook_all_steps(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    r.doubt("every optimizer's step is hooked")
    return Opaque("handle", data=True)


def _initialize(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """apex.amp.initialize hands back what it was given; deepspeed's an engine."""
    if "deepspeed" in name:
        engine = Opaque("engine", role="engine")
        return (engine, Opaque("optimizer", role="silent"), Opaque("loader"), Opaque("scheduler"))
    return tuple(args) if len(args) > 1 else (args[0] if args else None)


def _scale_loss(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Context("pass", args[0] if args else None)


def _master_params(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and isinstance(args[0], Optim):
        return Params(tuple(args[0].nodes), "master_params", whose=args[0])
    return Opaque("master_params")


def _cat(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return mix(r, base(name), [*args, *kwargs.values()])


def _reduce_mean(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    result = mix(r, base(name), args, keep=True)
    result.reduction = "mean" if base(name) == "mean" else None
    return result


def _tensor(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """torch.randn and its like: data, or a leaf that collects gradients."""
    if not name.startswith("torch"):
        return Opaque(r.hint or name, data=True, length=_first_size(args))
    sizes = args[1:] if base(name) == "randint" else args
    value = Opaque(r.hint or base(name), data=True, length=_first_size(sizes))
    if base(name) in ("tensor", "as_tensor"):
        value.length = len(args[0]) if args and isinstance(args[0], list) else None
    if kwargs.get("requires_grad") is True:
        value.data = False
        attributes.make_leaf(r, value)
    return value


def _islice(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """As many as it is told to hand out: who limits a stream knows that it is longer."""
    source, *bounds = args or [None]
    if not bounds or not all(isinstance(one, int) for one in bounds):
        return source
    start, stop = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    if isinstance(source, (list, tuple)):
        return source[start:stop]
    known = loops.count_of(source)
    end = stop if known is None else min(stop, known)
    return Loader("islice", max(0, end - start), loops.element_of(r, source))


TENSORS = "randn rand zeros ones full empty arange randint tensor as_tensor linspace eye randperm"
TABLE: dict[str, External_] = {
    "islice": _islice,
    "no_grad": surroundings.no_grad,
    "inference_mode": surroundings.no_grad,
    "enable_grad": surroundings.enable_grad,
    "set_grad_enabled": surroundings.set_grad,
    "autocast": surroundings.autocast,
    "GradScaler": _grad_scaler,
    "ShardedGradScaler": _grad_scaler,
    "DataLoader": surroundings.data_loader,
    "TensorDataset": surroundings.tensor_dataset,
    "Parameter": _parameter,
    "Variable": _variable,
    "deepcopy": _deepcopy,
    "save": _save,
    "load": _load,
    "Accelerator": _accelerator,
    "Fabric": _accelerator,
    "partial": _partial,
    "backward": _backward,
    "grad": _autograd_grad,
    "AveragedModel": _averaged,
    "register_optimizer_step_post_hook": _hook_all_steps,
    "register_optimizer_step_pre_hook": _hook_all_steps,
    "initialize": _initialize,
    "scale_loss": _scale_loss,
    "master_params": _master_params,
    "mean": _reduce_mean,
    "SimpleNamespace": surroundings.namespace,
    "trange": surroundings.trange,
    "chain": surroundings.chain,
    "from_iterable": surroundings.chain,
    "get_model_state_dict": surroundings.get_state_dict,
    **dict.fromkeys(TENSORS.split(), _tensor),
}
