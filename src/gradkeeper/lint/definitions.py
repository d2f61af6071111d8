"""Functions, classes and imports of the program."""

import ast

from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.values import Class, Context, External, Frame, Function, Signal, Value


def function(r: Rehearsal, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signal:
    r.frame.names[node.name] = make(r, node, r.frame)
    return None


def make(r: Rehearsal, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> Function:
    from gradkeeper.lint.expressions import evaluate

    defaults = [evaluate(r, one) for one in node.args.defaults]
    named = {
        one.arg: evaluate(r, value)
        for one, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if value is not None
    }
    return Function(node, frame, defaults, named, node.name)


def cls(r: Rehearsal, node: ast.ClassDef) -> Signal:
    from gradkeeper.lint import statements
    from gradkeeper.lint.expressions import evaluate

    bases = [evaluate(r, one) for one in node.bases]
    made = Class(node, r.frame, bases)
    body = Frame(
        {}, r.frame, r.frame.module or r.frame, node.name, r.frame.survey, r.frame.file, home=made
    )
    before = r.frame
    r.frame = body
    for one in node.body:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found = make(r, one, before)
            found.home = made
            body.names[one.name] = found
        elif isinstance(one, (ast.Assign, ast.AnnAssign)):
            statements.block(r, [one])
    r.frame = before
    made.members = body.names
    r.frame.names[node.name] = made
    return None


def imports(r: Rehearsal, node: ast.Import) -> Signal:
    for one in node.names:
        if one.asname:
            r.frame.names[one.asname] = _module(r, one.name, 0)
        else:
            top = one.name.partition(".")[0]
            r.frame.names[top] = _module(r, top, 0)
    return None


def imports_from(r: Rehearsal, node: ast.ImportFrom) -> Signal:
    module = node.module or ""
    for one in node.names:
        if one.name == "*":
            _import_all(r, module, node.level)
            continue
        name = one.asname or one.name
        r.frame.names[name] = _member(r, module, node.level, one.name)
    return None


def _member(r: Rehearsal, module: str, level: int, name: str) -> Value:
    frame = r.project.load(r, module, level) if r.project else None
    if frame is not None and name in frame.names:
        return frame.names[name]
    if r.project:
        inner = r.project.load(r, f"{module}.{name}" if module else name, level)
        if inner is not None:
            return Context("module", inner)
    return External(f"{module}.{name}" if module else name)


def _module(r: Rehearsal, name: str, level: int) -> Value:
    frame = r.project.load(r, name, level) if r.project else None
    return Context("module", frame) if frame is not None else External(name)


def _import_all(r: Rehearsal, module: str, level: int) -> None:
    frame = r.project.load(r, module, level) if r.project else None
    if frame is not None:
        r.frame.names.update({k: v for k, v in frame.names.items() if not k.startswith("_")})
    elif module.startswith("torch"):
        for name in ("nn", "optim"):
            r.frame.names.setdefault(name, External(f"torch.{name}"))
