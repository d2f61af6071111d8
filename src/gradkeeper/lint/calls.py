"""Calls: who is called, with what, and where that leads."""

import ast

from gradkeeper.lint import attributes, expressions, externals, functions, objects, strangers
from gradkeeper.lint.builtins_ import BUILTINS, call_builtin
from gradkeeper.lint.methods import call_method
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.scalers import scaler_call
from gradkeeper.lint.tensors import loss_of, mix, modules_in, without_params
from gradkeeper.lint.values import (
    Class,
    Context,
    External,
    Function,
    Grad,
    Instance,
    LossFn,
    Method,
    Module,
    Opaque,
    Partial,
    Value,
)
from gradkeeper.lint.vocabulary import MODULE_METHODS, SCALER_NAME

__all__ = ["BUILTINS", "call", "call_value"]


def call(r: Rehearsal, node: ast.Call) -> Value:
    func = node.func
    hint, r.hint = r.hint, ""
    method = func.attr if isinstance(func, ast.Attribute) else None
    callee = expressions.evaluate(r, func.value if isinstance(func, ast.Attribute) else func)
    args, kwargs = _arguments(r, node)
    r.hint = hint
    r.here = node
    if method is None:
        return call_value(r, callee, args, kwargs, node)
    if type(callee) is Opaque:
        return call_method(r, callee, method, args, kwargs, node)  # two of three calls
    return _of_receiver(r, callee, method, args, kwargs, node)


def _arguments(r: Rehearsal, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
    args: list[Value] = []
    for one in node.args:
        if isinstance(one, ast.Starred):
            value = expressions.evaluate(r, one.value)
            if isinstance(value, (list, tuple)):
                args.extend(value)
            else:
                args.append(value)
        else:
            args.append(expressions.evaluate(r, one))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = expressions.evaluate(r, keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(value, dict):
            kwargs.update({key: one for key, one in value.items() if isinstance(key, str)})
        else:
            kwargs["**"] = value
    return args, kwargs


def _of_receiver(
    r: Rehearsal,
    receiver: Value,
    attr: str,
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.Call,
) -> Value:
    if isinstance(receiver, External):
        return externals.call(r, f"{receiver.name}.{attr}", args, kwargs, node)
    if isinstance(receiver, Context) and receiver.kind == "super":
        return _of_super(r, receiver, attr, args, kwargs, node)
    if isinstance(receiver, (Instance, Class)) or (
        isinstance(receiver, Context) and receiver.kind == "module"
    ):
        known = attr in receiver.attrs if isinstance(receiver, Instance) else True
        found = attributes.get(r, receiver, attr, node)
        if not known and isinstance(receiver, Instance) and attr in receiver.attrs:
            del receiver.attrs[attr]
            return call_method(r, receiver, attr, args, kwargs, node)
        return call_value(r, found, args, kwargs, node)
    if isinstance(receiver, Module) and attr not in objects.MODULE_METHODS:
        found = attributes.get(r, receiver, attr, node)
        if isinstance(found, (Function, Module, LossFn, Partial, Class)):
            return call_value(r, found, args, kwargs, node)
        if isinstance(found, Opaque) and (found.node or found.role):
            return call_value(r, found, args, kwargs, node)
        del receiver.attrs[attr]
    return call_method(r, receiver, attr, args, kwargs, node)


def _of_super(
    r: Rehearsal,
    receiver: Context,
    attr: str,
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.Call,
) -> Value:
    home, me = receiver.value
    for parent in home.bases:
        if isinstance(parent, Class):
            found = attributes.member(parent, attr)
            if found is not None:
                return call_value(r, attributes.bind(r, found, me), args, kwargs, node)
    return mix(r, f"super().{attr}()", [*args, *kwargs.values()])


def call_value(
    r: Rehearsal, callee: Value, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    if isinstance(callee, Function):
        return functions.enter(r, callee, args, kwargs, node)
    if isinstance(callee, External):
        if callee.name in BUILTINS:
            return call_builtin(r, callee.name, args, kwargs, node)
        return externals.call(r, callee.name, args, kwargs, node)
    if isinstance(callee, Class):
        return objects.instantiate(r, callee, args, kwargs, node)
    if isinstance(callee, Module):
        return objects.forward(r, callee, args, kwargs, node)
    if isinstance(callee, LossFn):
        return loss_of(r, "loss", [*args, *kwargs.values()], callee)
    if isinstance(callee, Partial):
        return call_value(
            r, callee.function, [*callee.args, *args], {**callee.kwargs, **kwargs}, node
        )
    if isinstance(callee, Method):
        return call_method(r, callee.of, callee.name, args, kwargs, node)
    if isinstance(callee, Instance):
        found = attributes.member(callee.cls, "__call__")
        if isinstance(found, Function):
            return functions.enter(r, attributes.bind(r, found, callee), args, kwargs, node)
    if isinstance(callee, Opaque):
        return call_opaque(r, callee, args, kwargs, node)
    return mix(r, "result", [*args, *kwargs.values()])


def call_opaque(
    r: Rehearsal, callee: Opaque, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    values = [*args, *kwargs.values()]
    if SCALER_NAME.search(callee.name) and len(values) > 1:
        return scaler_call(r, args, kwargs, node)
    if callee.node is not None:
        return objects.through(r, callee.node, values, node)
    if callee.data:
        return mix(r, callee.name, values)  # `torch.jit.load(path)(x)`: x comes through
    survey = r.frame.survey
    last = callee.name.rpartition(".")[2]
    if survey is not None and survey.methods.get(last, set()) & MODULE_METHODS:
        return objects.through(r, objects.as_module(r, callee), values, node)
    given = strangers.meet(r, callee.name, values)
    constant = all(isinstance(one, (str, int, float, bool)) for one in values)
    name = f"{callee.name}({', '.join(map(str, values))})" if constant else f"{callee.name}()"
    result = mix(r, r.hint or name, without_params(values))
    result.hints = modules_in(values)
    result.given = given
    takes_grad = any(isinstance(one, Grad) for one in values)
    if r.grad and not takes_grad and (result.hints or callee.maybe or not result.flow):
        result.maybe = True
    return result
