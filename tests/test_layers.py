"""Who may import whom. The linter must install and start without anything else."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "gradkeeper"
OURS = {
    "model": set(),
    "rules": {"model"},
    "report": {"model"},
    "lint": {"model", "rules"},
    "server": {"model", "rules", "report", "lint"},
    "watcher": {"model", "rules"},
    "checkpoint": {"model"},
    "engine": {"model", "checkpoint"},
    "prove": {"watcher", "checkpoint"},
}
BOTTOM = {
    "source_line": {"model"},
    "tree": set(),
    "rng": set(),
    "replicas": {"torch_private"},
    "torch_private": set(),
}
"""Single files that those above torch share."""
ABOVE_TORCH = ("watcher", "checkpoint", "engine", "prove")
for _layer in ABOVE_TORCH:
    OURS[_layer] |= BOTTOM.keys()
OURS |= BOTTOM
STDLIB_ONLY = ("model", "rules", "report", "lint", "cli")


def imports(source: str) -> Iterator[str]:
    """Every module that a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def trespasses(layer: str, source: str) -> list[str]:
    found = []
    for module in imports(source):
        first, *rest = module.split(".")
        if first == "gradkeeper" and layer in OURS:
            known = rest and rest[0] in OURS.keys() | {"cli", "integrations"}
            if known and rest[0] not in OURS[layer] | {layer}:
                found.append(module)
        elif first not in sys.stdlib_module_names and first != "gradkeeper":
            if layer in STDLIB_ONLY:
                found.append(module)
    return found


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    assert trespasses(layer_of(path), path.read_text()) == []


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("model", "import gradkeeper.rules"),
        ("rules", "from gradkeeper.report import text"),
        ("lint", "def f():\n    import torch"),
        ("lint", "from gradkeeper import watcher"),
        ("engine", "from gradkeeper.watcher import Watch"),
        ("watcher", "from gradkeeper.engine import Engine"),
    ],
)
def test_an_import_that_points_the_wrong_way_is_caught(layer: str, source: str) -> None:
    assert trespasses(layer, source)


# Files of one layer import each other one way too.


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def needs(source: str, modules: set[str]) -> set[str]:
    """Those of the modules that a file imports, wherever the import stands; types aside."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = imports(ast.unparse(tree))
    return {name if name in modules else name.rpartition(".")[0] for name in found} & modules


def in_circles(graph: dict[str, set[str]]) -> list[str]:
    """What is left when all that needs nothing is taken away, again and again."""
    left = {name: wanted - {name} for name, wanted in graph.items()}
    while ready := [name for name, wanted in left.items() if not wanted & left.keys()]:
        for name in ready:
            del left[name]
    return sorted(left)


def test_imports_go_round_in_no_circle() -> None:
    modules = {module_of(path): path.read_text() for path in files()}
    graph = {name: needs(source, set(modules)) for name, source in modules.items()}

    assert any(graph.values())
    assert in_circles(graph) == []


def test_a_circle_of_imports_would_be_noticed() -> None:
    modules = {"a", "b", "c"}
    sources = {
        "a": "from b import x",
        "b": "def f():\n    import a",
        "c": "import a\nif TYPE_CHECKING:\n    import c",
    }
    graph = {name: needs(source, modules) for name, source in sources.items()}

    assert graph == {"a": {"b"}, "b": {"a"}, "c": {"a"}}
    assert in_circles(graph) == ["a", "b", "c"]
    assert in_circles({"a": {"b"}, "b": set(), "c": {"a"}}) == []


# Private parts of torch: in one file, which says so.

PRIVATE = "torch_private.py"
SAID_OF_THEMSELVES = re.compile(
    r"_(version|saved_\w+|input_metadata|nnz|values|indices|is_zerotensor)$"
)
"""What tensors and nodes of a graph say of themselves, and are asked for wherever it is needed."""
WITH_TORCH = {*ABOVE_TORCH, *BOTTOM, "integrations", "testing", "watching"}
FAST = re.compile(r"_foreach_\w+$")
ABOUT_OTHERS = ("rng.py", "engine/data/known_loaders.py")
"""Files about Python's, NumPy's and other people's private parts."""
NOT_TORCHS = {"_replace", "_asdict", "_make", "_fields", "_getframe", "_exit", "_tied_weights_keys"}


def ours() -> set[str]:
    """Private names that the package itself gives to something."""
    found: set[str] = set()
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found.add(name)
                case ast.Attribute(attr=name, value=ast.Name(id="self"), ctx=ast.Store()):
                    found.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    found.add(name)
    return found


def private_parts(source: str, known: set[str]) -> list[str]:
    """Names with an underscore that are nobody's here: torch's, then."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("torch"):
                found += [*module.split("."), *(one.name for one in names)]
            case ast.Attribute(attr=name):
                found.append(name)
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(), *_]):
                found.append(str(ast.literal_eval(node.args[1])))
    passed = NOT_TORCHS | known
    return [
        name
        for name in found
        if name.startswith("_")
        and not name.startswith("__")
        and name not in passed
        and not SAID_OF_THEMSELVES.match(name)
        and not FAST.match(name)
    ]


def test_private_parts_of_torch_are_used_in_one_file() -> None:
    known = ours()
    found = {}
    for path in files():
        name = path.relative_to(PACKAGE).as_posix()
        if layer_of(path) in WITH_TORCH and name not in (PRIVATE, *ABOUT_OTHERS):
            found[name] = private_parts(path.read_text(), known)

    assert {name: parts for name, parts in found.items() if parts} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from torch._utils import ExceptionWrapper",
        "from torch.nn.modules.batchnorm import _BatchNorm",
        "wrapper._sync_buffers()",
        "getattr(iterator, '_index_sampler', None)",
    ],
)
def test_a_private_part_of_torch_elsewhere_would_be_noticed(source: str) -> None:
    assert private_parts(source, ours())
