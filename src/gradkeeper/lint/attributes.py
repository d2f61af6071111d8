"""Reading and setting attributes of a rehearsed value."""

import ast

from gradkeeper.lint import groups, objects
from gradkeeper.lint.nodes import Node
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.values import (
    Accelerator,
    Class,
    Context,
    External,
    Function,
    Grad,
    Instance,
    Loader,
    Method,
    Module,
    Opaque,
    Optim,
    Param,
    Sched,
    Value,
    shortened,
)
from gradkeeper.model import events as ev

ASSUMED_GATE = 2
GRADS = ("grad", "_grad")
"""The second is how gradients are put into parameters that another process shares."""


def get(r: Rehearsal, value: Value, attr: str, node: ast.AST) -> Value:
    if isinstance(value, External):
        return External(f"{value.name}.{attr}")
    if isinstance(value, Opaque):
        return _of_opaque(r, value, attr)
    if isinstance(value, Module):
        return of_module(r, value, attr, node)
    if isinstance(value, Instance):
        return _of_instance(r, value, attr)
    if isinstance(value, Class):
        found = member(value, attr)
        return Opaque(f"{value.node.name}.{attr}") if found is None else found
    if isinstance(value, Param):
        return _of_param(r, value, attr)
    if isinstance(value, Grad):
        return value if attr == "data" else read(r, value, node)
    if isinstance(value, Optim):
        return _of_optimizer(value, attr)
    if isinstance(value, Accelerator):
        return _of_accelerator(value, attr)
    if isinstance(value, Sched) and attr == "optimizer":
        return value.optim
    if isinstance(value, Context) and value.kind == "module":
        return value.value.names.get(attr, Opaque(attr))
    if isinstance(value, Loader):
        return Opaque(f"{value.name}.{attr}", length=value.length, data=attr == "dataset")
    return Method(value, attr)


def _of_opaque(r: Rehearsal, value: Opaque, attr: str) -> Value:
    if value.role is not None and not isinstance(value.role, str):
        return get(r, value.role, attr, r.here)
    if value.leaf is not None:
        if attr == "grad":
            return Grad(Param((value.leaf,)))
        if attr == "data":
            return Param((value.leaf,))
    if attr in ("data", "shape", "dtype", "device"):
        return Opaque(f"{value.name}.{attr}", data=True)
    if attr == "module" and value.node is not None:
        return value
    if value.flow or value.maybe:
        return part(value, f".{attr}")
    return remembered(r, value, attr, f"{value.name}.{attr}")


def part(value: Opaque, suffix: str) -> Opaque:
    """An attribute or item of something computed: it comes from where the whole comes from."""
    return Opaque(
        shortened(f"{value.name}{suffix}"),
        value.flow,
        value.maybe,
        multiplier=value.multiplier,
        reduction=value.reduction,
        autocast=value.autocast,
        scaler=value.scaler,
        given=value.given,
    )


def remembered(r: Rehearsal, value: Opaque, key: str, name: str) -> Value:
    """The same unknown each time it is asked for; a window's size becomes a number."""
    if value.attrs is None:
        value.attrs = {}
    if key in value.attrs:
        return value.attrs[key]
    survey = r.frame.survey
    found: Value
    if survey is not None and key.strip("[]'\"") in survey.gates and not value.data:
        found = ASSUMED_GATE
    else:
        hints = (value.node,) if value.node is not None else ()
        found = Opaque(shortened(name), data=value.data, disk=value.disk, hints=hints)
        found.given = value.given
    value.attrs[key] = found
    return found


def of_module(r: Rehearsal, value: Module, attr: str, node: ast.AST) -> Value:
    if attr in value.attrs:
        return value.attrs[attr]
    if attr == "training":
        return True
    objects.prepare(r, value)
    if attr in value.attrs:
        return value.attrs[attr]
    if value.cls is not None:
        found = member(value.cls, attr)
        if found is not None:
            return bind(r, found, value)
    if attr == "module":
        return value
    if isinstance(value.items, dict) and attr in value.items:
        return value.items[attr]
    if attr in objects.MODULE_METHODS:
        return Method(value, attr)
    found = Opaque(f"{value.node.name}.{attr}", hints=(value.node,))
    survey = r.frame.survey
    if survey is not None and attr in survey.gates:
        found = ASSUMED_GATE
    value.attrs[attr] = found
    return found


def _of_instance(r: Rehearsal, value: Instance, attr: str) -> Value:
    if attr in value.attrs:
        return value.attrs[attr]
    found = member(value.cls, attr)
    if found is not None:
        return bind(r, found, value)
    if attr == "__class__":
        return value.cls
    survey = r.frame.survey
    if survey is not None and attr in survey.gates:
        value.attrs[attr] = ASSUMED_GATE
    else:
        value.attrs[attr] = Opaque(f"self.{attr}")
    return value.attrs[attr]


def member(cls: Class, name: str, depth: int = 0) -> Value:
    """A class's own or inherited member, or None."""
    if name in cls.members:
        return cls.members[name]
    for parent in cls.bases:
        if isinstance(parent, Class) and depth < 8:
            found = member(parent, name, depth + 1)
            if found is not None:
                return found
    return None


def bind(r: Rehearsal, found: Value, me: Value) -> Value:
    if not isinstance(found, Function) or isinstance(found.node, ast.Lambda):
        return found
    names = {_decorator(one) for one in found.node.decorator_list}
    if "staticmethod" in names:
        return found
    owner = me.cls if "classmethod" in names and isinstance(me, (Instance, Module)) else me
    bound = Function(
        found.node,
        found.frame,
        found.defaults,
        found.kw_defaults,
        found.name,
        bound=owner,
        is_bound=True,
        home=found.home,
    )
    if names & {"property", "cached_property"}:
        from gradkeeper.lint import functions

        return functions.enter(r, bound, [], {}, found.node)
    return bound


def _decorator(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return str(getattr(node, "attr", None) or getattr(node, "id", ""))


def _of_param(r: Rehearsal, value: Param, attr: str) -> Value:
    if attr == "grad":
        return Grad(value)
    if attr == "data":
        return value
    if attr == "requires_grad":
        return any(node.live() for node in value.nodes)
    return Opaque(f"parameter.{attr}", data=True)


def _of_optimizer(value: Optim, attr: str) -> Value:
    if attr == "param_groups":
        return groups.Groups(value)
    if attr in ("optimizer", "_optimizer"):
        return value
    if attr in ("state", "defaults"):
        return Opaque(f"{value.name}.{attr}", data=True)
    return Method(value, attr)


def _of_accelerator(value: Accelerator, attr: str) -> Value:
    if attr == "sync_gradients":
        return value.sync
    if attr == "gradient_accumulation_steps":
        return value.steps if value.steps is not None else Opaque("gradient_accumulation_steps")
    if attr in ("is_main_process", "is_local_main_process"):
        return True
    if attr == "scaler":
        return None
    if attr in ("device", "state", "num_processes", "process_index", "mixed_precision"):
        return Opaque(f"accelerator.{attr}", data=True)
    return Method(value, attr)


def read(r: Rehearsal, value: Grad, node: ast.AST) -> Opaque:
    """A gradient is looked at: for logging, for a Fisher matrix, to be put elsewhere."""
    names = param_accounts(r, value.param)
    if names:
        r.post(ev.Read(site=r.site(node), accounts=names))
    value.param.guarded = True
    return Opaque("gradient", data=True, gradient=True)


def is_guarded(r: Rehearsal, param: Param) -> bool:
    return param.guarded or any(node in r.guarded for node in param.nodes)


def param_accounts(r: Rehearsal, param: Param) -> tuple[str, ...]:
    names = dict.fromkeys(r.accounts(param.nodes))
    if r.stranger() and r.world is not None and not all(node.single for node in param.nodes):
        names.update(dict.fromkeys(r.accounts([r.world])))
    return tuple(names)


def put(r: Rehearsal, value: Value, attr: str, new: Value, node: ast.AST) -> None:
    """`value.attr = new`."""
    if not _one_for_another(value, attr, new):
        r.changes += 1
    if isinstance(value, Module):
        _put_module(r, value, attr, new)
    elif isinstance(value, Instance):
        value.attrs[attr] = new
    elif isinstance(value, Param):
        _put_param(r, value, attr, new, node)
    elif isinstance(value, Accelerator):
        if attr == "gradient_accumulation_steps":
            value.steps = new if isinstance(new, int) else None
    elif isinstance(value, Class):
        value.members[attr] = new
    elif isinstance(value, Opaque):
        _put_opaque(r, value, attr, new, node)


def _one_for_another(value: Value, attr: str, new: Value) -> bool:
    """Something unknown takes the place of something unknown."""
    old = (getattr(value, "attrs", None) or {}).get(attr)
    return isinstance(old, Opaque) and isinstance(new, Opaque) and old.blank() and new.blank()


def _put_module(r: Rehearsal, value: Module, attr: str, new: Value) -> None:
    objects.prepare(r, value)
    value.attrs[attr] = new
    child = new.node if isinstance(new, Module) else None
    if isinstance(new, Opaque):
        child = new.leaf or new.node
    if child is not None:
        r.registry.attach(child, value.node, attr, inborn=bool(r.preparing))
        value.node.coupled = value.node.coupled or child.coupled


def _put_param(r: Rehearsal, value: Param, attr: str, new: Value, node: ast.AST) -> None:
    if attr in GRADS:
        names = param_accounts(r, value)
        if new is None:
            r.post(ev.Zero(site=r.site(node), accounts=names))
        elif isinstance(new, Opaque) and new.disk:
            r.post(ev.Restore(site=r.site(node), accounts=names, gradients=True))
        elif not isinstance(new, Grad) or new.param.nodes != value.nodes:
            r.post(ev.Assign(site=r.site(node), accounts=names))
    elif attr == "requires_grad":
        freeze(r, value.nodes, new)
    elif attr == "data":
        r.post(ev.Move(site=r.site(node), accounts=param_accounts(r, value)))


def freeze(r: Rehearsal, nodes: tuple[Node, ...] | list[Node], trains: Value) -> None:
    if r.partial:
        # Some of them, by a test that was not seen: which ones train is no longer known.
        r.post(ev.Escape(site=r.site(r.here), accounts=r.accounts(nodes)))
        return
    for one in nodes:
        if isinstance(trains, bool):
            one.frozen = not trains
            if trains:
                for part in one.parts:
                    part.frozen = False


def _put_opaque(r: Rehearsal, value: Opaque, attr: str, new: Value, node: ast.AST) -> None:
    if attr in GRADS and value.leaf is not None:
        _put_param(r, Param((value.leaf,)), attr, new, node)
    elif attr in GRADS and not value.flow:
        r.doubt("gradients are set of tensors that are not seen")
    elif attr == "requires_grad":
        if value.node is not None:
            freeze(r, [value.node], new)
        elif new is True and value.leaf is None and not value.flow:
            make_leaf(r, value)
    elif attr == "data" and value.leaf is not None:
        _put_param(r, Param((value.leaf,)), attr, new, node)
    else:
        if value.attrs is None:
            value.attrs = {}
        value.attrs[attr] = new
        child = new.node if isinstance(new, Module) else None
        if value.node is not None and child is not None:
            r.registry.attach(child, value.node, attr)


def make_leaf(r: Rehearsal, value: Opaque, *, trainable: bool = False) -> None:
    """The tensor collects gradients of its own from now on."""
    value.leaf = Node(value.name, single=True, trainable=trainable)
    value.flow = frozenset((value.leaf,))
