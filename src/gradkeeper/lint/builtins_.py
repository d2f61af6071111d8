"""Python's own functions, on what a rehearsal knows."""

import ast
from collections.abc import Callable
from typing import Any

from gradkeeper.lint import attributes, loops
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import mix
from gradkeeper.lint.values import (
    MISSING,
    Class,
    Context,
    External,
    Instance,
    Loader,
    Module,
    Opaque,
    Optim,
    Params,
    Shortened,
    Value,
    Wrapped,
)
from gradkeeper.lint.words import words

BUILTINS = words(
    """len range enumerate zip list tuple dict set sorted reversed iter next sum max min int float
    bool str isinstance getattr setattr hasattr print map filter any all abs round super type open
    id divmod callable chain vars repr frozenset object Exception ValueError RuntimeError
    NotImplementedError KeyError StopIteration staticmethod property"""
)
Args = list[Value]
LONGEST = 10_000


def call_builtin(
    r: Rehearsal, name: str, args: Args, kwargs: dict[str, Value], node: ast.AST
) -> Value:
    handler = TABLE.get(name)
    if handler is not None:
        return handler(r, args, kwargs, node)
    return Opaque(f"{name}()", data=True)


def _len(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    value = args[0] if args else None
    if isinstance(value, (list, tuple, dict, str)):
        return len(value)
    count = loops.count_of(value)
    if count is not None:
        return Shortened(r.rounds(count), count)
    if isinstance(value, Loader):
        return r.batches
    if isinstance(value, Opaque) and not value.data and not value.flow:
        return r.batches
    return Opaque(f"len({getattr(value, 'name', '')})")


def _range(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    if args and all(isinstance(one, int) for one in args):
        try:
            found = range(*args[:3])
        except (TypeError, ValueError):
            return Loader("range")
        return found if len(found) < LONGEST else found[:LONGEST]
    if len(args) >= 2 and isinstance(args[0], int) and not isinstance(args[1], int):
        start = args[0]
        return range(start, start + r.batches)
    return range(r.batches)


def _enumerate(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    start = args[1] if len(args) > 1 else kwargs.get("start", 0)
    return Wrapped("enumerate", args[:1], start if isinstance(start, int) else 0)


def _zip(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    return Wrapped("zip", args)


def _list(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    value = args[0] if args else []
    if isinstance(value, Params):
        if value.oneshot and value.used:
            loops.elements(r, value, node)
            return []
        value.used = True
        return Params(value.nodes, value.name, named=value.named)
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, (range, Wrapped)):
        found, known = loops.elements(r, value, node)
        return found if known else value
    return list(value) if isinstance(value, (list, tuple)) else value


def _dict(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    found = dict(args[0]) if args and isinstance(args[0], dict) else {}
    found.update(kwargs)
    return found


def _first(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    return args[0] if args else Opaque("nothing")


def _next(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    value = args[0] if args else None
    if isinstance(value, (Opaque, Loader, Params)):
        return loops.element_of(r, value)
    return Opaque("next", data=True)


def _sum(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    if args and isinstance(args[0], (list, tuple)):
        if args[0] and all(isinstance(one, (int, float)) for one in args[0]):
            return sum(args[0])
        return mix(r, "sum()", args[0], keep=True)
    return mix(r, "sum()", args, keep=True)


def _number(function: Callable[..., Any]) -> Callable[..., Value]:
    def compute(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
        if function is float and args and args[0] in ("inf", "-inf", "nan"):
            return float(args[0])
        plain = all(isinstance(one, (int, float)) for one in args)
        if args and plain and not kwargs:
            try:
                return function(*args)
            except (TypeError, ValueError, OverflowError):
                return Opaque("number")
        if function in (max, min):
            return _extreme(r, args)
        if function is int and len(args) == 1 and isinstance(args[0], Opaque):
            return args[0]
        return Opaque(f"{function.__name__}()", data=True)

    return compute


def _extreme(r: Rehearsal, args: Args) -> Value:
    """max(1, unknown) is as large as a window that is spoken of."""
    known = [one for one in args if isinstance(one, (int, float))]
    unknown = [one for one in args if isinstance(one, Opaque)]
    if known and unknown:
        return unknown[0]
    return mix(r, "extreme()", args)


def _isinstance(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    if len(args) == 2:
        value, kind = args
        if isinstance(value, Instance) and isinstance(kind, Class):
            return value.cls is kind or kind in value.cls.bases
        if isinstance(value, (Module, Optim)) and isinstance(kind, External):
            if kind.name.rpartition(".")[2] in ("DataParallel", "DistributedDataParallel"):
                return False
        if isinstance(value, (list, tuple, dict)) and isinstance(kind, External):
            return kind.name in ("list", "tuple", "dict") and type(value).__name__ == kind.name
        name = getattr(value, "name", type(value).__name__)
        other = getattr(kind, "name", "")
        return Opaque(f"isinstance({name}, {other})")
    return Opaque("isinstance()")


def _getattr(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    if len(args) >= 2 and isinstance(args[1], str):
        return attributes.get(r, args[0], args[1], node)
    if args and isinstance(args[0], External):
        return External(f"{args[0].name}.?")
    return Opaque("getattr()")


def _setattr(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    if len(args) == 3 and isinstance(args[1], str):
        attributes.put(r, args[0], args[1], args[2], node)
    return None


def _hasattr(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    if len(args) == 2 and isinstance(args[0], Instance) and isinstance(args[1], str):
        if args[1] in args[0].attrs or attributes.member(args[0].cls, args[1]) is not None:
            return True
    if len(args) == 2:
        return Opaque(f"hasattr({getattr(args[0], 'name', '')}, {args[1]})")
    return Opaque("hasattr()")


def _filter(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    value = args[1] if len(args) > 1 else None
    if isinstance(value, Params):
        if value.oneshot and value.used:
            loops.elements(r, value, node)
        value.used = True
        return Params(value.nodes, "filter", oneshot=True, named=value.named)
    return value if value is not None else Opaque("filter")


def _chain(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    from gradkeeper.lint.events_of import nodes_of

    nodes = nodes_of(r, args, node)
    if nodes:
        return Params(tuple(nodes), "chain", oneshot=True)
    return Opaque("chain")


def _super(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    home = r.frame.home
    if home is None:
        return Opaque("super()")
    me = r.frame.me
    if me is None:
        me = r.frame.look("self")
    return Context("super", (home, None if me is MISSING else me))


def _map(r: Rehearsal, args: Args, kwargs: Any, node: ast.AST) -> Value:
    return Opaque("map", data=True)


TABLE: dict[str, Callable[[Rehearsal, Args, Any, ast.AST], Value]] = {
    "len": _len,
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "list": _list,
    "tuple": _list,
    "set": _list,
    "sorted": _first,
    "reversed": _first,
    "iter": _first,
    "dict": _dict,
    "next": _next,
    "sum": _sum,
    "max": _number(max),
    "min": _number(min),
    "int": _number(int),
    "float": _number(float),
    "abs": _number(abs),
    "round": _number(round),
    "isinstance": _isinstance,
    "getattr": _getattr,
    "setattr": _setattr,
    "hasattr": _hasattr,
    "filter": _filter,
    "chain": _chain,
    "super": _super,
    "map": _map,
}
