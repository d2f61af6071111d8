"""Inside the linter, too, there are layers."""

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gradkeeper" / "lint"


def imports_of(path: Path) -> set[str]:
    """The modules of lint that a file imports, wherever the import stands, types aside."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    typing = {
        id(one)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for one in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in typing and node.module:
            if node.module == "gradkeeper.lint.libraries":
                found |= {f"{node.module}.{one.name}" for one in node.names}
            elif node.module.startswith("gradkeeper.lint"):
                found.add(node.module)
    return found


def test_the_interpreter_knows_no_library() -> None:
    for path in SOURCE.glob("interpreter/*.py"):
        assert not any(".libraries" in name for name in imports_of(path))
