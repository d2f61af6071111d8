"""Small questions that many ask of a syntax tree."""

import ast

from gradkeeper.lint.words import words

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.While, ast.AsyncFor)
PARAMETERS = frozenset({"parameters", "named_parameters", "param_groups", "params"})
PLAIN_FIELDS = words(
    """ctx op ops id attr arg name names kind conversion type_comment type_ignores module level
    is_async simple rest kwd_attrs asname str"""
)
"""What holds no node, or none that matters; a Constant's value is left out by itself."""
FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(one for one in kind._fields if one not in PLAIN_FIELDS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Constant: (), ast.MatchSingleton: ()}


def children(node: ast.AST) -> list[ast.AST]:
    """As ast.iter_child_nodes, without contexts and operators; half of all time was spent there."""
    found: list[ast.AST] = []
    for name in FIELDS[type(node)]:
        value = getattr(node, name)
        if type(value) is list:
            found += value
        elif value is not None:
            found.append(value)
    return [one for one in found if one is not None] if None in found else found


def called_name(call: ast.Call) -> str:
    """The last name of what is called; "" where it has none."""
    func = call.func
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def names_parameters(iterable: ast.expr) -> bool:
    for node in ast.walk(iterable):
        name = getattr(node, "attr", getattr(node, "id", getattr(node, "value", None)))
        if name in PARAMETERS:
            return True
    return False


def function_of(
    node: ast.AST, parents: dict[ast.AST, ast.AST]
) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost one around it, or itself."""
    above: ast.AST | None = node
    while above is not None and not isinstance(above, FUNCTIONS):
        above = parents.get(above)
    return above
