"""Who may import whom. The linter must install and start without anything else."""

import ast
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
    "replicas": set(),
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


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    assert trespasses(layer, path.read_text()) == []


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
