"""What PyTorch puts around training: gradient modes, autocast, data, and a few containers."""

import ast

from gradkeeper.lint.builtins_ import call_builtin
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.tensors import modules_in
from gradkeeper.lint.values import Context, External, Loader, Opaque, StateDict, Value

Args = list[Value]
Kwargs = dict[str, Value]
HALF = ("torch.float16", "torch.half")


def no_grad(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Context("no_grad")


def enable_grad(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Context("enable_grad")


def set_grad(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else kwargs.get("mode")
    if isinstance(value, bool):
        r.grad = value
    return Context("set_grad", value)


def autocast(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    enabled = kwargs.get("enabled", True)
    device = args[0] if args else kwargs.get("device_type", "cuda")
    dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
    if isinstance(args[0] if args else None, bool):
        enabled, device = args[0], "cuda"
    if enabled is not True or not isinstance(device, str) or "**" in kwargs:
        return Context("autocast", None)
    if isinstance(dtype, External):
        half = dtype.name in HALF
    else:
        half = dtype is None and device.startswith("cuda")
    return Context("autocast", "float16" if half else None)


def data_loader(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    data = args[0] if args else kwargs.get("dataset")
    size = kwargs.get("batch_size", args[1] if len(args) > 1 else 1)
    length = data.length if isinstance(data, (Opaque, Loader)) else None
    count = None
    if isinstance(length, int) and isinstance(size, int) and size > 0:
        if "sampler" not in kwargs and "batch_sampler" not in kwargs:
            count = length // size if kwargs.get("drop_last") is True else -(-length // size)
    return Loader(r.hint or "loader", count)


def tensor_dataset(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    length = args[0].length if args and isinstance(args[0], Opaque) else None
    return Opaque("dataset", length=length, data=True)


def trange(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return call_builtin(r, "range", args, {}, node)


def chain(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return call_builtin(r, "chain", args, {}, node)


def namespace(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Opaque(r.hint or "namespace", attrs=dict(kwargs))


def get_state_dict(r: Rehearsal, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return StateDict(modules_in(args))
