"""What becomes of unknown values when they are combined: where they come from, at what weight."""

from collections.abc import Iterable

from gradkeeper.lint.nodes import Node
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.values import (
    NOWHERE,
    External,
    LossFn,
    Module,
    Opaque,
    Optim,
    Param,
    Params,
    Scaler,
    Sched,
    Value,
)


def opaque_parts(values: Iterable[Value], depth: int = 0) -> list[Opaque]:
    """The tensors among some values, containers opened."""
    found: list[Opaque] = []
    for value in values:
        if isinstance(value, Opaque):
            found.append(value)
        elif isinstance(value, Param):
            found.append(Opaque("parameter", flow=frozenset(value.nodes)))
        elif isinstance(value, (list, tuple)) and depth < 3:
            found.extend(opaque_parts(value[:32], depth + 1))
        elif isinstance(value, dict) and depth < 3:
            found.extend(opaque_parts(list(value.values())[:32], depth + 1))
    return found


def modules_in(values: Iterable[Value]) -> tuple[Node, ...]:
    """The modules that a call was given."""
    found: dict[Node, None] = {}
    for value in values:
        if isinstance(value, Module):
            found[value.node] = None
        elif isinstance(value, (Params, Param)):
            found.update(dict.fromkeys(value.nodes))
        elif isinstance(value, dict) and "params" in value:
            found.update(dict.fromkeys(modules_in([value["params"]])))
        elif isinstance(value, Opaque):
            if value.node is not None:
                found[value.node] = None
            elif not value.flow:
                found.update(dict.fromkeys(value.hints))
        elif isinstance(value, (list, tuple)):
            found.update(dict.fromkeys(modules_in(value[:16])))
    return tuple(found)


PARTS = ("children", "modules", "named_modules", "named_children")


def parts(module: Value, name: str) -> Opaque:
    """`model.modules()`: one round with the module itself stands for each of its parts."""
    inner = (Opaque("name", data=True), module) if name.startswith("named") else module
    return Opaque(name, role="parts", inner=inner)


def without_params(values: Iterable[Value]) -> list[Value]:
    """What a call computes with, apart from parameters that it is merely told of."""
    return [
        value
        for value in values
        if not isinstance(value, (Param, Params))
        and not (isinstance(value, (list, tuple)) and any(isinstance(x, Param) for x in value))
    ]


def mix(r: Rehearsal, name: str, values: Iterable[Value], *, keep: bool = False) -> Opaque:
    """The result of an operation on these values; with `keep`, weight and reduction survive."""
    parts = opaque_parts(values)
    if not r.grad:
        return Opaque(name)
    flow = NOWHERE
    maybe = False
    autocast = scaler = None
    for part in parts:
        flow |= part.flow
        maybe = maybe or part.maybe
        autocast = autocast or part.autocast
        scaler = scaler or part.scaler
    result = Opaque(name, flow, maybe, autocast=autocast, scaler=scaler)
    if keep and parts:
        result.multiplier = _shared_weight(parts)
        result.reduction = _shared_reduction(parts)
        result.ignoring = any(part.ignoring for part in parts)
    return result


def _connected(parts: list[Opaque]) -> list[Opaque]:
    return [part for part in parts if part.flow or part.maybe] or parts


def _shared_weight(parts: list[Opaque]) -> float | None:
    """Several losses added up weigh what the heaviest weighs: the others are terms beside it."""
    weights = [part.multiplier for part in _connected(parts)]
    known = [abs(weight) for weight in weights if weight is not None]
    if len(known) < len(weights):
        return None
    return max(known)


def _shared_reduction(parts: list[Opaque]) -> str | None:
    found = {part.reduction for part in _connected(parts)}
    return found.pop() if len(found) == 1 else None


def scaled(r: Rehearsal, name: str, tensor: Opaque, factor: float | None, other: Value) -> Opaque:
    """A tensor times a number; `factor` None where the number is not known."""
    result = mix(r, name, [tensor, other], keep=False)
    result.reduction = tensor.reduction
    result.ignoring = tensor.ignoring
    result.length = tensor.length
    if factor is None or tensor.multiplier is None:
        result.multiplier = None
    else:
        result.multiplier = tensor.multiplier * factor
    return result


def loss_of(r: Rehearsal, name: str, values: Iterable[Value], kind: LossFn) -> Opaque:
    result = mix(r, name, values)
    result.multiplier = 1.0
    result.reduction = kind.reduction
    result.ignoring = kind.ignoring
    return result


def cut(name: str) -> Opaque:
    """A tensor that no gradient passes."""
    return Opaque(name)


OBJECTS = (Module, Optim, Sched, Scaler, LossFn, Params)


def join(question: str, one: Value, other: Value) -> Value:
    """What a variable holds after a branch whose way is not known, and makes no event."""
    if one is other:
        return one
    if isinstance(one, Opaque) and isinstance(other, Opaque):
        return _join_opaque(one, other)
    if one is None:
        return other
    if other is None:
        return one
    if isinstance(one, External) and isinstance(other, External):
        return one if one.name == other.name else Opaque(f"({question})", data=True)
    if isinstance(one, OBJECTS):
        return one
    if isinstance(other, OBJECTS):
        return other
    if isinstance(one, Opaque) and (one.flow or one.maybe):
        return one
    if isinstance(other, Opaque) and (other.flow or other.maybe):
        return other
    try:
        if type(one) is type(other) and one == other:
            return one
    except RecursionError:
        return one
    if isinstance(one, (list, dict, tuple)) or callable(getattr(one, "look", None)):
        return one
    if isinstance(one, (int, float, str)) or isinstance(other, (int, float, str)):
        return Opaque(f"({question})")
    return one


def _join_opaque(one: Opaque, other: Opaque) -> Opaque:
    if one.node is not None or one.role is not None or one.leaf is not None:
        return one
    if other.node is not None or other.role is not None or other.leaf is not None:
        return other
    weight = one.multiplier if one.multiplier == other.multiplier else None
    if not (one.flow or one.maybe):
        weight = other.multiplier
    if not (other.flow or other.maybe):
        weight = one.multiplier
    return Opaque(
        one.name,
        one.flow | other.flow,
        one.maybe or other.maybe,
        multiplier=weight,
        # A `.mean()` in one branch says that the other one is a scalar already.
        reduction=one.reduction or other.reduction,
        autocast=one.autocast if one.autocast == other.autocast else None,
        scaler=one.scaler or other.scaler,
        length=one.length if one.length == other.length else None,
        disk=one.disk or other.disk,
        hints=one.hints or other.hints,
    )
