"""Loops over parameters: their rounds are no batches, and one stands for a whole set."""

import ast

from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.values import BREAK, Opaque, Param, Params, Return, Signal, Value, Wrapped
from gradkeeper.model import events as ev


def run(r: Rehearsal, node: ast.For | ast.AsyncFor, iterable: Value) -> tuple[bool, Signal]:
    """Whether this is such a loop, and how it ended."""
    if parameters(iterable) is not None:
        return True, _over_parameters(r, node, iterable)
    if isinstance(iterable, Opaque) and iterable.role == "parts":
        return True, _over_parts(r, node, [iterable.inner])
    if isinstance(iterable, (list, tuple)) and _are_owned(iterable):
        return True, _over_parts(r, node, [_each(one) for one in iterable])
    return False, None


def parameters(iterable: Value) -> Params | None:
    if isinstance(iterable, Params):
        return iterable
    if isinstance(iterable, Wrapped) and iterable.of:
        return parameters(iterable.of[0])
    return None


def _over_parameters(r: Rehearsal, node: ast.For | ast.AsyncFor, iterable: Value) -> Signal:
    """One round stands for all parameters of the set."""
    from gradkeeper.lint import loops, statements

    params = parameters(iterable)
    assert params is not None
    if params.oneshot and params.used:
        r.post(ev.Exhaust(site=r.site(node.iter), use="this loop"))
        return None
    params.used = True
    r.in_params += 1
    partial = r.partial
    statements.assign(r, node.target, loops.element_of(r, iterable), node)
    signal = statements.block(r, node.body)
    r.in_params -= 1
    r.partial = partial
    return signal if isinstance(signal, Return) else None


def _are_owned(values: list[Value] | tuple[Value, ...]) -> bool:
    """Tensors that collect gradients of their own, and sets of such, however many there are."""
    return bool(values) and all(
        isinstance(one, (Param, Params)) or (isinstance(one, Opaque) and one.leaf) for one in values
    )


def _each(value: Value) -> Value:
    return Param(value.nodes) if isinstance(value, Params) and not value.oneshot else value


def _over_parts(
    r: Rehearsal, node: ast.For | ast.AsyncFor, values: list[Value] | tuple[Value, ...]
) -> Signal:
    from gradkeeper.lint import statements

    r.in_params += 1
    signal: Signal = None
    for one in values:
        statements.assign(r, node.target, one, node)
        signal = statements.block(r, node.body)
        if signal is BREAK or isinstance(signal, Return):
            break
    r.in_params -= 1
    return signal if isinstance(signal, Return) else None
