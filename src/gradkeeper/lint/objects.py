"""Classes of the program and what they make: plain objects and modules."""

import ast
from functools import lru_cache

from gradkeeper.lint import attributes, functions
from gradkeeper.lint.nodes import Node
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.syntax import called_name
from gradkeeper.lint.tensors import mix, modules_in
from gradkeeper.lint.values import (
    Class,
    External,
    Function,
    Instance,
    Module,
    Opaque,
    Optim,
    Value,
    base,
)
from gradkeeper.lint.vocabulary import COUPLED, LAYERS, OPTIMIZERS, PRETRAINED
from gradkeeper.lint.words import words
from gradkeeper.model import events as ev

MODULE_METHODS = words(
    """parameters named_parameters zero_grad train eval to cuda cpu half float double state_dict
    load_state_dict requires_grad_ forward no_sync apply children modules named_modules append
    values keys items register_buffer"""
)
MODULE_BASES = words(
    """Module LightningModule Sequential ModuleList ModuleDict MessagePassing PreTrainedModel
    BertPreTrainedModel ModelMixin HybridModule"""
)


def kind_of(cls: Class, depth: int = 0) -> str:
    """'module', 'optimizer', 'lightning' or 'object': what a class inherits."""
    for parent in cls.bases:
        if isinstance(parent, Class):
            if depth < 8:
                found = kind_of(parent, depth + 1)
                if found != "object":
                    return found
        elif isinstance(parent, (External, Opaque)):
            name = base(parent.name)
            if "Lightning" in name:
                return "lightning"
            if name == "Optimizer":
                return "optimizer"
            if name in MODULE_BASES or name.endswith(("Module", "Model", "Net", "Conv")):
                return "module"
    return "object"


def instantiate(
    r: Rehearsal, cls: Class, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    kind = kind_of(cls)
    name = r.hint or cls.node.name
    if kind == "optimizer":
        from gradkeeper.lint.owners import build_optimizer

        return build_optimizer(r, cls.node.name, args, kwargs, node)
    if kind == "module" or (kind == "lightning" and not _trains_by_hand(cls)):
        if _is_loss(cls):
            return Module(Node(name, trainable=False), cls, (args, kwargs))
        params = has_parameters(cls)
        coupled = _mentions(cls, COUPLED)
        node_ = Node(name, trainable=params, coupled=coupled, solid=params)
        made = Module(node_, cls, (args, kwargs))
        if r.frame.survey is not None:
            _set_apart_unused(r, made)
        if _mentions(cls, OPTIMIZERS):
            prepare(r, made)  # it owns itself from the start
        return made
    plain = Instance(cls)
    _construct(r, cls, plain, args, kwargs, node)
    return plain


def _set_apart_unused(r: Rehearsal, module: Module) -> None:
    """Layers that nothing in the file reads get accounts of their own."""
    assert module.cls is not None
    init = module.cls.members.get("__init__")
    if not isinstance(init, Function) or r.preparing:
        return
    loaded = r.frame.survey.loaded
    names = [
        target.attr
        for one in ast.walk(init.node)
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Attribute)
        and target.attr not in loaded
        and isinstance(one.value, ast.Call)
        and getattr(one.value.func, "attr", "") in LAYERS
    ]
    if not names or len(module.cls.bases) != 1 or isinstance(module.cls.bases[0], Class):
        return
    prepare(r, module)
    for name in names:
        part = module.attrs.get(name)
        if isinstance(part, Module):
            part.node.unused = True
            r.registry.accounts(part.node)


def _construct(
    r: Rehearsal,
    cls: Class,
    made: Value,
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST,
) -> None:
    init = attributes.member(cls, "__init__")
    if isinstance(init, Function):
        functions.enter(r, attributes.bind(r, init, made), args, kwargs, node)
        return
    fields = [
        one.target.id
        for one in cls.node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]
    for name, value in zip(fields, args, strict=False):
        made.attrs[name] = value
    made.attrs.update(kwargs)


def _trains_by_hand(cls: Class) -> bool:
    return any(
        isinstance(one, ast.Attribute) and one.attr in ("manual_backward", "automatic_optimization")
        for one in ast.walk(cls.node)
    )


def _is_loss(cls: Class) -> bool:
    return "loss" in cls.node.name.lower() and not has_parameters(cls)


def has_parameters(cls: Class) -> bool:
    """Whether the source shows that it has weights of its own, to be trained from scratch."""
    found = False
    for one in ast.walk(cls.node):
        if isinstance(one, ast.Call):
            name = called_name(one)
            if name in PRETRAINED or name.startswith(("vgg", "resnet")):
                return False
            found = found or name in LAYERS
        elif isinstance(one, ast.Attribute) and one.attr in ("models", "hub"):
            return False
    return found


def _mentions(cls: Class, names: frozenset[str]) -> bool:
    return not _attributes(cls.node).isdisjoint(names)


@lru_cache(maxsize=64)
def _attributes(node: ast.ClassDef) -> frozenset[str]:
    """Looked up for every object that is made, on every path: walked once."""
    return frozenset(one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute))


def prepare(r: Rehearsal, module: Module) -> None:
    """Rehearses a module's __init__ when one of its parts is asked for."""
    if module.ready or module.cls is None:
        return
    module.ready = True
    args, kwargs = module.arguments or ([], {})
    hint, r.hint = r.hint, ""
    grad, r.grad = r.grad, True
    r.preparing.append(module)
    loops, r.loops = r.loops, []
    _construct(r, module.cls, module, args, kwargs, module.cls.node)
    r.loops = loops
    r.preparing.pop()
    r.hint, r.grad = hint, grad


def forward(
    r: Rehearsal, module: Module, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """Calling a module: the result comes from the inputs and from the module's parameters."""
    if module.node.parts and module.cls is not None:
        method = attributes.member(module.cls, "forward")
        if isinstance(method, Function) and method.node not in r.entered:
            prepare(r, module)
            bound = attributes.bind(r, method, module)
            return functions.enter(r, bound, args, kwargs, node)
    if module.cls is not None and _gives_detached(module.cls):
        return Opaque(f"{module.node.name}()", data=True)
    return through(r, module.node, [*args, *kwargs.values()], node)


def _gives_detached(cls: Class) -> bool:
    """Whatever its forward returns, it is detached."""
    if cls.detached is None:
        method = attributes.member(cls, "forward")
        returns = [
            one.value
            for one in (ast.walk(method.node) if isinstance(method, Function) else ())
            if isinstance(one, ast.Return)
        ]
        cls.detached = bool(returns) and all(
            isinstance(one, ast.Call) and getattr(one.func, "attr", "") == "detach"
            for one in returns
        )
    return cls.detached


def through(r: Rehearsal, module: Node, values: list[Value], node: ast.AST) -> Opaque:
    name = f"{module.name}()"
    result = mix(r, name, values)
    result.multiplier = 1.0
    if r.grad:
        if module.live():
            result.flow |= {module}
            if module.trainable or module.holds:
                r.post(ev.Forward(site=r.site(node), accounts=r.registry.accounts(module)))
        else:
            r.idle += 1
        result.autocast = r.autocast or result.autocast
    result.hints = modules_in(values)
    if r.grad:
        # A module that is given to another one's forward is used there.
        result.flow |= {one for one in result.hints if one.live()}
    return result


def as_module(r: Rehearsal, value: Opaque) -> Node:
    """Something unknown turns out to be a module."""
    if value.node is None:
        value.node = Node(value.name, trainable=False, foreign=r.abroad, of_unseen_class=True)
        if len(value.hints) == 1:
            if value.name.startswith(f"{value.hints[0].name}."):
                value.node.parent = value.hints[0]
            else:
                value.node = value.hints[0]  # a wrapper around it
        _take_in_parts(r, value, value.node)
    return value.node


def _take_in_parts(r: Rehearsal, value: Opaque, node: Node) -> None:
    """`net.head.parameters()` was asked for before anybody knew that `net` is a module."""
    for name, part in (value.attrs or {}).items():
        if isinstance(part, Opaque) and part.node is not None:
            r.registry.attach(part.node, node, name)


__all__ = ["Optim", "as_module", "forward", "instantiate", "prepare", "through"]
