"""Rewrites of a training script that leave its meaning alone: only how it is written changes.

A rewrite takes the files of a program and gives new ones, or None where the script does not allow
it. Each statement remembers its line of the original, so that findings can be compared by line.
"""

import ast
import builtins
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

SCRIPT = "script.py"
PARTS = "parts.py"
Files = dict[str, ast.Module]
Rewrite = Callable[[ast.Module], Files | None]
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Loop = ast.For | ast.While
Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Program:
    """The text of each file, and the original line of each of its lines, where it has one."""

    texts: dict[str, str]
    origins: dict[str, dict[int, int]]


def original(source: str) -> ast.Module:
    """The script as one statement per line, each of which will know its line from now on."""
    tree = ast.parse(ast.unparse(ast.parse(source)))
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            node.origin = node.lineno  # type: ignore[attr-defined]
    return tree


def written(files: Files) -> Program | None:
    """The files as text; None where the text would not be read as the same tree again."""
    texts, origins = {}, {}
    for name, tree in files.items():
        texts[name] = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        again = ast.parse(texts[name])
        if ast.dump(again) != ast.dump(tree):
            return None
        origins[name] = {
            new.lineno: old.origin
            for old, new in zip(ast.walk(tree), ast.walk(again), strict=True)
            if isinstance(new, ast.stmt) and hasattr(old, "origin")
        }
    return Program(texts, origins)


def unchanged(tree: ast.Module) -> Files:
    return {SCRIPT: tree}


# Names


def renamed(tree: ast.Module) -> Files | None:
    """The script's own variables, functions, classes and attributes lose their telling names."""
    if any(isinstance(node, ast.Match) for node in ast.walk(tree)):
        return None
    if _names(tree) & {"locals", "globals", "vars", "getattr", "setattr", "hasattr", "eval"}:
        return None
    names = {name: f"v{number}" for number, name in enumerate(sorted(_own_names(tree)))}
    attributes = {name: f"a{number}" for number, name in enumerate(sorted(_own_attributes(tree)))}
    return {SCRIPT: _Renamer(names, attributes).visit(tree)}


def _own_names(tree: ast.Module) -> set[str]:
    """Variables, parameters, functions and classes that no other file may know by name."""
    own = _stored(tree)
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                own.add(name)
            case ast.FunctionDef(name=name) if node not in _methods(tree):
                own.add(name)
    imported = _binds(
        node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _is_import(node)
    )
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    fields = {name for node in _classes(tree) for name in _stored(_module(_statements(node)))}
    return own - imported - keywords - fields - {"self"} - set(dir(builtins))


def _own_attributes(tree: ast.Module) -> set[str]:
    """What is set on `self`, and methods of classes without a base; but nothing that torch or a
    string may know by the same name."""
    known = {"grad", "data", "weight", "bias", "training", "state", "defaults", "param_groups"}
    known |= {"automatic_optimization"}  # a word of Lightning's
    known |= {
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in node.value.replace(".", " ").split()
    }
    known |= {name for node in _classes(tree) for name in _stored(_module(_statements(node)))}
    known |= {method.name for node in _classes(tree) if node.bases for method in _functions(node)}
    plain = {
        method.name
        for node in _classes(tree)
        if not node.bases and not node.decorator_list
        for method in _functions(node)
        if not method.name.startswith("__") and not method.decorator_list
    }
    foreign = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and not _of_self(node)
    }
    return (plain | _set_on_self(tree)) - known - (foreign & _TORCH) - _of_modules(tree)


def _of_modules(tree: ast.Module) -> set[str]:
    """What is asked of modules: `torch.save` is not the script's own `save`."""
    imported = _binds(
        node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _is_import(node)
    )
    found: set[str] = set()
    for node in ast.walk(tree):
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in imported:
            found.update(chain)
    return found


_TORCH = {
    "step",
    "zero_grad",
    "backward",
    "parameters",
    "update",
    "scale",
    "train",
    "eval",
    "forward",
}


def _set_on_self(tree: ast.Module) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _of_self(node)
    }


def _of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _classes(tree: ast.AST) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _functions(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [one for one in node.body if isinstance(one, ast.FunctionDef)]


def _methods(tree: ast.AST) -> list[ast.FunctionDef]:
    return [method for node in _classes(tree) for method in _functions(node)]


def _statements(node: ast.ClassDef) -> list[ast.stmt]:
    """The class body without its methods: fields and class variables."""
    return [one for one in node.body if not isinstance(one, ast.FunctionDef)]


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: dict[str, str], attributes: dict[str, str]) -> None:
        self.names = names
        self.attributes = attributes

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names.get(node.arg, node.arg)
        self.generic_visit(node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        node.attr = self.attributes.get(node.attr, node.attr)
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        for method in _functions(node):
            method.name = self.attributes.get(method.name, method.name)
            method.is_method = True  # type: ignore[attr-defined]
        node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if not hasattr(node, "is_method"):
            node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        if node.name:
            node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node

    def visit_Global(self, node: ast.Global) -> ast.Global:
        node.names = [self.names.get(name, name) for name in node.names]
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Nonlocal:
        node.names = [self.names.get(name, name) for name in node.names]
        return node


# Where code stands


def in_main(tree: ast.Module) -> Files | None:
    """All but the imports moves into `def main()`, which is then called."""
    if any(isinstance(node, ast.Global) for node in ast.walk(tree)) or not _acts(tree):
        return None
    imports = [node for node in tree.body if _is_import(node)]
    rest = [node for node in tree.body if not _is_import(node) and not _is_docstring(node)]
    main = _function("main", [], rest)
    call = ast.parse("if __name__ == '__main__':\n    main()").body
    return {SCRIPT: _module([*imports, main, *call])}


def loop_in_function(tree: ast.Module) -> Files | None:
    """The script's last loop becomes `def train(...)`, with what it reads as parameters."""
    loops = [place for place, node in enumerate(tree.body) if isinstance(node, Loop)]
    if not loops or _has(tree, ast.Global):
        return None
    place = loops[-1]
    loop, before, after = tree.body[place], tree.body[:place], tree.body[place + 1 :]
    if _reads(after) & _binds([loop]) or _has(loop, ast.Return, ast.Yield):
        return None
    if any(_reads([one]) & _binds([loop]) for one in before if isinstance(one, ast.FunctionDef)):
        return None
    if "train" in _names(tree) or "train" in _binds(tree.body):
        return None
    needed = sorted(_reads([loop]) & _variables(before))
    train = _function("train", needed, [loop])
    call = ast.parse(f"train({', '.join(needed)})").body
    return {SCRIPT: _module([*before, train, *call, *after])}


def body_in_function(tree: ast.Module) -> Files | None:
    """The body of the first training loop becomes a function of its own, beside the loop."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    scopes: list[ast.Module | ast.FunctionDef] = [tree, *functions]
    for scope in scopes:
        for place, node in enumerate(scope.body):
            for loop in _training_loops(node):
                if _take_body(scope, place, loop):
                    return {SCRIPT: tree}
    return None


def _take_body(scope: ast.Module | ast.FunctionDef, place: int, loop: Loop) -> bool:
    held = {
        id(one) for node in ast.walk(scope) if isinstance(node, Scope) for one in ast.walk(node)
    }
    if (id(loop) in held and scope.__class__ is ast.Module) or _has(loop, ast.Global, ast.Nonlocal):
        return False
    body = _Returning().body_of(loop)
    if body is None or any(isinstance(node, Scope) for node in _inside(scope, loop)):
        return False
    targets = sorted(_stored(loop.target)) if isinstance(loop, ast.For) else []
    kept = sorted(_binds(body) - set(targets) - _local_to(scope, body))
    head: list[ast.stmt] = []
    if kept:
        head.append(ast.Global(kept) if isinstance(scope, ast.Module) else ast.Nonlocal(kept))
    function = _function("train_on", targets, [*head, *body])
    loop.body = ast.parse(f"train_on({', '.join(targets)})").body
    elsewhere = _binds([scope] if isinstance(scope, ast.Module) else scope.body)
    elsewhere |= {one.arg for one in ast.walk(scope) if isinstance(one, ast.arg)}
    missing = [name for name in kept if name not in elsewhere]
    first = [ast.parse(f"{name} = None").body[0] for name in missing]
    scope.body[place:place] = [*first, function]
    return True


def _inside(scope: ast.AST, loop: Loop) -> Iterator[ast.AST]:
    """The nodes between a scope and a loop in it."""
    for node in ast.walk(scope):
        if node is not scope and node is not loop and any(one is loop for one in ast.walk(node)):
            yield node


def in_class(tree: ast.Module) -> Files | None:
    """A script's set-up becomes `__init__`, with attributes for variables, its last loop `fit`."""
    return _as_trainer(tree, "__init__")


def in_class_with_setup(tree: ast.Module) -> Files | None:
    """The same, with the set-up in a method that is called before training."""
    return _as_trainer(tree, "configure")


def _as_trainer(tree: ast.Module, setup: str) -> Files | None:
    loops = [place for place, node in enumerate(tree.body) if isinstance(node, Loop)]
    if not loops or loops[-1] != len(tree.body) - 1 or _has(tree, ast.Global):
        return None
    if any(node.name == "Trainer" for node in _classes(tree)):
        return None
    apart = [node for node in tree.body if _is_import(node) or isinstance(node, Scope)]
    moved = [node for node in tree.body if node not in apart and not _is_docstring(node)]
    variables = _binds(moved[:-1])
    inner = {
        node.id
        for one in ast.walk(_module(moved))
        if isinstance(one, Comprehension)
        for generator in one.generators
        for node in ast.walk(generator.target)
        if isinstance(node, ast.Name)
    }
    if variables & inner or _reads(apart) & variables or _has(_module(moved), ast.Lambda, Scope):
        return None
    _ToAttributes(variables).visit(_module(moved))
    trainer = ast.ClassDef("Trainer", [], [], [], [])
    trainer.body = [
        _function(setup, ["self"], moved[:-1]),
        _function("fit", ["self"], moved[-1:]),
    ]
    calls = "trainer = Trainer()\n"
    calls += "trainer.fit()" if setup == "__init__" else f"trainer.{setup}()\ntrainer.fit()"
    return {SCRIPT: _module([*apart, trainer, *ast.parse(calls).body])}


class _ToAttributes(ast.NodeTransformer):
    def __init__(self, variables: set[str]) -> None:
        self.variables = variables

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.variables:
            return node
        return ast.Attribute(ast.Name("self", ast.Load()), node.id, node.ctx)


class _Returning(ast.NodeTransformer):
    """A loop's body as that of a function: `continue` returns; a `break` has no such word."""

    def body_of(self, loop: Loop) -> list[ast.stmt] | None:
        body = [self.visit(copy.deepcopy(one)) for one in loop.body]
        return None if any(_breaks(one) for one in body) or loop.orelse else body

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return _like(node, ast.Return(None))

    def visit_For(self, node: ast.For) -> ast.For:
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        return node


def _breaks(node: ast.AST) -> bool:
    if isinstance(node, ast.Break | ast.Return | ast.Yield | ast.YieldFrom | ast.Global):
        return not (isinstance(node, ast.Return) and node.value is None)
    if isinstance(node, Scope):
        return False
    inside = ast.iter_child_nodes(node)
    if isinstance(node, Loop):
        return any(_has(one, ast.Return, ast.Yield) for one in inside)
    return any(_breaks(one) for one in inside)


def in_two_files(tree: ast.Module) -> Files | None:
    """Classes and functions that know nothing of the script move into a second file."""
    if not _acts(tree):
        return None
    imports = [node for node in tree.body if _is_import(node)]
    definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    variables = _variables([node for node in tree.body if node not in [*imports, *definitions]])
    if any(isinstance(node, ast.Global) for node in ast.walk(tree)):
        return None
    moved: list[ast.stmt] = []
    for node in definitions:
        known = {one.name for one in moved if isinstance(one, ast.FunctionDef | ast.ClassDef)}
        others = {one.name for one in definitions} - known - {node.name}
        if not _reads([node]) & (variables | others):
            moved.append(node)
    if not moved:
        return None
    names = [
        ast.alias(one.name) for one in moved if isinstance(one, ast.FunctionDef | ast.ClassDef)
    ]
    rest = [node for node in tree.body if node not in imports and node not in moved]
    fetch = ast.ImportFrom("parts", names, 0)
    script = _module([*imports, fetch, *rest])
    return {SCRIPT: script, PARTS: _module([*copy.deepcopy(imports), *moved])}


# How loops are written


def with_while(tree: ast.Module) -> Files | None:
    """`for` over batches becomes `while` with `next()`."""
    return _loops_replaced(tree, _while_loop)


def with_counter(tree: ast.Module) -> Files | None:
    """The index of `enumerate` becomes a counter of the script's own."""
    return _loops_replaced(tree, _counting_loop)


def _loops_replaced(
    tree: ast.Module, replace: Callable[[ast.For, int], list[ast.stmt] | None]
) -> Files | None:
    changed = 0
    for block in list(_blocks(tree)):
        for place in reversed(range(len(block))):
            loop = block[place]
            if isinstance(loop, ast.For) and not loop.orelse and _trains(loop):
                new = replace(loop, changed)
                if new:
                    block[place : place + 1] = new
                    changed += 1
    return {SCRIPT: tree} if changed else None


def _while_loop(loop: ast.For, number: int) -> list[ast.stmt] | None:
    if "range(" in ast.unparse(loop.iter):
        return None
    over, batch = f"rest_{number}", f"batch_{number}"
    start = ast.parse(f"{over} = iter({ast.unparse(loop.iter)})").body[0]
    fetch = ast.parse(
        f"{batch} = next({over}, None)\n"
        f"if {batch} is None:\n    break\n"
        f"{ast.unparse(loop.target)} = {batch}"
    ).body
    return [
        _like(loop, start),
        _like(loop, ast.While(ast.Constant(True), [*fetch, *loop.body], [])),
    ]


def _counting_loop(loop: ast.For, number: int) -> list[ast.stmt] | None:
    call, target = loop.iter, loop.target
    if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "enumerate"):
        return None
    if not (isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name)):
        return None
    first = "0"
    if call.keywords or len(call.args) == 2:
        first = ast.unparse(call.keywords[0].value if call.keywords else call.args[1])
    name = target.elts[0].id
    start = ast.parse(f"{name} = {first} - 1").body[0]
    count = ast.parse(f"{name} += 1").body[0]
    loop.iter, loop.target = call.args[0], target.elts[1]
    loop.body.insert(0, count)
    return [start, loop]


# Words that do nothing


def with_prints(tree: ast.Module) -> Files | None:
    """Loops say that they run, and how large a model is."""
    for block in list(_blocks(tree)):
        for place in reversed(range(len(block))):
            node = block[place]
            if isinstance(node, Loop):
                node.body.append(ast.parse("print('one round more')").body[0])
    for module in sorted(_modules(tree)):
        place = next(place for place, node in enumerate(tree.body) if module in _binds([node]))
        told = f"print(sum(one.numel() for one in {module}.parameters()))"
        tree.body.insert(place + 1, ast.parse(told).body[0])
    return {SCRIPT: tree}


def _modules(tree: ast.Module) -> set[str]:
    """Top-level variables whose `parameters()` somebody asks for at the top level."""
    asked = {
        node.func.value.id
        for one in tree.body
        if not isinstance(one, Scope)
        for node in ast.walk(one)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "parameters"
        and isinstance(node.func.value, ast.Name)
    }
    plain = {
        node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    return asked & plain


def with_logging(tree: ast.Module) -> Files | None:
    """A log line after each backward and before each step."""
    changed = False
    for block in list(_blocks(tree)):
        for place in reversed(range(len(block))):
            text = ast.unparse(block[place]) if isinstance(block[place], ast.Expr) else ""
            if text.endswith((".backward()", ".step()")):
                note = ast.parse(f"logging.getLogger('train').info({text!r})").body[0]
                block.insert(place + text.endswith(".backward()"), note)
                changed = True
    if changed:
        _after_docstring(tree, ast.parse("import logging").body[0])
    return {SCRIPT: tree} if changed else None


def with_default_argument(tree: ast.Module) -> Files | None:
    """Every function takes one more argument, which nobody gives."""
    changed = False
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
            continue
        arguments = node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or node.name == "forward":
            continue
        if node.decorator_list or _calls_by_library(node.name):
            continue
        arguments.args.append(ast.arg("verbose"))
        arguments.defaults.append(ast.Constant(False))
        place = 1 if _is_docstring(node.body[0]) and len(node.body) > 1 else 0
        spoken = f"if verbose:\n    print({node.name!r})"
        node.body.insert(place, ast.parse(spoken).body[0])
        changed = True
    return {SCRIPT: tree} if changed else None


def _calls_by_library(name: str) -> bool:
    """A hook of a framework's, which may look at the signature."""
    return name.endswith(("_step", "_hook", "_epoch", "_start", "_end"))


REWRITES: dict[str, Rewrite] = {
    one.__name__: one
    for one in (
        renamed,
        in_main,
        loop_in_function,
        body_in_function,
        in_class,
        in_class_with_setup,
        in_two_files,
        with_while,
        with_counter,
        with_prints,
        with_logging,
        with_default_argument,
    )
}


def rewrite(tree: ast.Module, names: Sequence[str]) -> Files | None:
    """One rewrite after the other; files that one of them parts off are left alone by the next."""
    files: Files = {SCRIPT: copy.deepcopy(tree)}
    for name in names:
        new = REWRITES[name](files[SCRIPT])
        if new is None:
            return None
        files |= new
    return files


# Reading a tree


def _module(body: Iterable[ast.stmt]) -> ast.Module:
    return ast.Module(list(body), [])


def _function(name: str, parameters: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    made = ast.parse(f"def {name}({', '.join(parameters)}):\n    pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.body = body or [ast.Pass()]
    return made


def _like(old: ast.stmt, new: Node) -> Node:
    """The new statement stands for the old one."""
    if hasattr(old, "origin"):
        new.origin = old.origin  # type: ignore[attr-defined]
    return ast.copy_location(new, old)


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _after_docstring(tree: ast.Module, statement: ast.stmt) -> None:
    """Where imports may stand: after the docstring and imports from the future."""
    place = next(
        place
        for place, node in enumerate(tree.body)
        if not _is_docstring(node)
        and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
    )
    tree.body.insert(place, statement)


def _acts(tree: ast.Module) -> bool:
    """A script that does something when run, as opposed to a library."""
    return any(
        isinstance(node, Loop | ast.If | ast.With)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        for node in tree.body
    )


def _has(tree: ast.AST, *kinds: type | object) -> bool:
    flat = tuple(kinds)
    return any(isinstance(node, kind) for node in ast.walk(tree) for kind in flat)  # type: ignore[arg-type]


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _trains(node: ast.AST) -> bool:
    """Whether a backward stands directly in this loop, not in one that it holds."""
    return any(loop is node for loop in _training_loops(node))


def _training_loops(node: ast.AST) -> Iterator[Loop]:
    """The innermost loops around each backward."""
    if isinstance(node, Loop):
        inner = [one for one in ast.walk(node) if isinstance(one, Loop) and one is not node]
        held = {id(one) for loop in inner for one in ast.walk(loop)}
        if any(_is_backward(one) for one in ast.walk(node) if id(one) not in held):
            yield node
    for child in ast.iter_child_nodes(node):
        yield from _training_loops(child)


def _is_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "backward"


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _reads(body: Iterable[ast.AST]) -> set[str]:
    """What these statements read of the names around them."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            inner = node.body if isinstance(node, ast.FunctionDef) else [node.body]
            own = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
            found |= _reads(inner) - own - _binds(inner)
            found |= _reads(node.args.defaults)
        elif isinstance(node, Comprehension):
            own = {name for one in node.generators for name in _stored(one.target)}
            found |= _reads(ast.iter_child_nodes(node)) - own
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found |= {node.target.id} | _reads([node.value])
        else:
            found |= _reads(ast.iter_child_nodes(node))
    return found


def _stored(node: ast.AST) -> set[str]:
    return {
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }


def _binds(body: Iterable[ast.AST]) -> set[str]:
    """What is assigned in this scope itself; `x += 1` binds, a comprehension's target does not."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).split(".")[0] for one in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found |= {node.name} | _binds(node.body)
        elif not isinstance(node, ast.Lambda | Comprehension):
            found |= _binds(ast.iter_child_nodes(node))
    return found


def _variables(body: Iterable[ast.stmt]) -> set[str]:
    """What a script's own statements assign, functions, classes and imports aside."""
    return _binds(node for node in body if not _is_import(node) and not isinstance(node, Scope))


def _local_to(tree: ast.AST, body: list[ast.stmt]) -> set[str]:
    """What this body assigns and nobody else reads, itself included, before it is assigned."""
    text = ast.dump(_module(body))
    others = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    counts: dict[str, int] = {}
    for node in others:
        counts[node.id] = counts.get(node.id, 0) + 1
    return {
        name
        for name in _binds(body)
        if counts.get(name, 0) == text.count(f"Name(id={name!r}") and _first_use_assigns(body, name)
    }


def _first_use_assigns(body: list[ast.stmt], name: str) -> bool:
    first = next((node for node in body if name in _names(node)), None)
    if first is None:
        return True  # a function that nobody calls
    plain = isinstance(first, ast.Assign) and name not in _names(first.value)
    return plain or isinstance(first, ast.FunctionDef)
