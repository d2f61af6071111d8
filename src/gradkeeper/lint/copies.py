"""Networks that take over another one's weights, at once or bit by bit: nobody trains them."""

import ast
from typing import TYPE_CHECKING

from gradkeeper.lint.syntax import called_name

if TYPE_CHECKING:
    from gradkeeper.lint.survey import Survey


def note_copy(call: ast.Call, name: str, found: "Survey") -> None:
    """`old.load_state_dict(new.state_dict())`."""
    if call.args and isinstance(call.args[0], ast.Call):
        if called_name(call.args[0]) == "state_dict":
            found.copies.add(name)


def note_blend(loop: ast.For, found: "Survey") -> None:
    """`for old, new in zip(target.parameters(), net.parameters()): old.data.copy_(...)`."""
    if not isinstance(loop.iter, ast.Call) or called_name(loop.iter) != "zip":
        return
    if not isinstance(loop.target, ast.Tuple):
        return
    moved = {name for one in loop.body for name in _moved(one)}
    for variable, source in zip(loop.target.elts, loop.iter.args, strict=False):
        if isinstance(variable, ast.Name) and variable.id in moved:
            name = _network(source)
            if name:
                found.copies.add(name)


def _moved(statement: ast.stmt) -> set[str]:
    """Variables that are filled by `copy_`, or whose data are set."""
    found: set[str] = set()
    for node in ast.walk(statement):
        target: ast.expr | None = None
        if isinstance(node, ast.Call) and called_name(node) == "copy_":
            target = node.func.value if isinstance(node.func, ast.Attribute) else None
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            target = node if node.attr == "data" else None
        if isinstance(target, ast.Attribute) and target.attr == "data":
            target = target.value
        if isinstance(target, ast.Name):
            found.add(target.id)
    return found


def _network(source: ast.expr) -> str:
    """`net` of `self.net.parameters()`."""
    if not isinstance(source, ast.Call) or not isinstance(source.func, ast.Attribute):
        return ""
    of = source.func.value
    if isinstance(of, ast.Attribute):
        return of.attr
    return of.id if isinstance(of, ast.Name) else ""
