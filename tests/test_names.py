"""One name, one idea: a class is defined in one module, and a variable is called what it is."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "gradkeeper"
SHARED = {
    "GradkeeperCallback": "what users import, one for each trainer",
    "Scalars": "what users import, one for each tracker",
    "Watch": "the watcher's, and the one that users get, which adds a report",
    "Window": "what one step spends: the block of the engine, and what the books know of one",
    "Optimizer": "torch's, as the books know it and as the linter stands in for it",
}
"""Names of classes that two modules may define, and what they have in common."""
MEANINGLESS = {"one"}


def modules() -> dict[str, ast.Module]:
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in PACKAGE.rglob("*.py")
    }


def defined_twice(trees: Mapping[str, ast.Module]) -> set[str]:
    """Classes that several modules define."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].add(path)
    return {name for name, paths in found.items() if len(paths) > 1}


def meaningless(tree: ast.Module) -> Iterator[int]:
    """Lines on which a variable or a parameter gets a name that says nothing."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in MEANINGLESS:
                yield node.lineno


def test_a_class_name_stands_for_one_idea() -> None:
    assert defined_twice(modules()) == set(SHARED)


def test_variables_are_called_what_they_are() -> None:
    found = {path: list(meaningless(tree)) for path, tree in modules().items()}

    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_second_idea_by_the_same_name_would_be_noticed() -> None:
    trees = {"a.py": ast.parse("class Place: ..."), "b.py": ast.parse("class Place: ...")}

    assert defined_twice(trees) == {"Place"}
    assert list(meaningless(ast.parse("lines = [one for one in lines]"))) == [1]
    assert list(meaningless(ast.parse("ordered = sorted(lines, key=lambda one: -one)"))) == [1]
