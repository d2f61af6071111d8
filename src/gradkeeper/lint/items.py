"""What `value[index]` stands for."""

import ast

from gradkeeper.lint import groups
from gradkeeper.lint.attributes import of_module, part, read, remembered
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.strangers import WHICH_OPTIMIZER
from gradkeeper.lint.tensors import opaque_parts
from gradkeeper.lint.values import Grad, Loader, Module, Opaque, Optim, Value, shortened


def item(r: Rehearsal, value: Value, index: Value, node: ast.AST) -> Value:
    if isinstance(value, Module):
        if value.items is not None and not _is_listed(value.items, index):
            return value  # one of its parts, and which one is not known
        if value.items is not None:
            value = value.items
        elif isinstance(index, (int, str)):
            return of_module(r, value, str(index), node)
    if isinstance(value, groups.Groups) and isinstance(index, int):
        return groups.one(value, index)
    if isinstance(value, groups.Group) and index == "params":
        return value.params(r)
    if isinstance(value, (list, tuple)):
        if isinstance(index, int) and -len(value) <= index < len(value):
            return value[index]
        if index is None or not value:
            return value
        return _one_of(r, value)
    if isinstance(value, dict):
        if isinstance(index, (str, int, bool, float, type(None))) and index in value:
            return value[index]
        if any(isinstance(one, Optim) for one in value.values()):
            r.doubt(WHICH_OPTIMIZER)
        return Opaque(shortened(f"item[{index!r}]") if isinstance(index, str) else "item")
    if isinstance(value, Grad):
        return read(r, value, node)
    if isinstance(value, Opaque):
        if isinstance(value.inner, tuple) and isinstance(index, int) and value.role is None:
            return value.inner
        if value.flow or value.maybe:
            return part(value, f"[{index!r}]" if isinstance(index, (int, str)) else "[]")
        if isinstance(index, (int, str)):
            return remembered(r, value, f"[{index!r}]", f"{value.name}[{index!r}]")
        return Opaque(shortened(f"{value.name}[]"), data=value.data, disk=value.disk)
    if isinstance(value, Loader):
        return Opaque(f"{value.name}[]", data=True)
    return Opaque("item")


def _one_of(r: Rehearsal, values: list[Value] | tuple[Value, ...]) -> Value:
    """An element at an index that is not known: of networks, the same one each time."""
    found = opaque_parts(values)
    if not found:
        return values[0]
    merged = _merged(found)
    if merged.flow:
        return merged
    return r.merged.setdefault(tuple(map(id, found)), (merged, found))[0]


def _is_listed(items: list[Value] | dict[str, Value], index: Value) -> bool:
    if isinstance(items, dict):
        return isinstance(index, str) and index in items
    return index is None or (isinstance(index, int) and -len(items) <= index < len(items))


def _merged(parts: list[Opaque]) -> Opaque:
    return Opaque(
        parts[0].name,
        frozenset(node for part in parts for node in part.flow),
        any(part.maybe for part in parts),
    )
