"""Fixes: edits on the original text. Each is tried first: the result must parse and check clean."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace

from gradkeeper.lint.edits import replaced
from gradkeeper.lint.placing import Source
from gradkeeper.lint.source_text import lines_of
from gradkeeper.model.finding import Edit, Finding, Fix, Severity
from gradkeeper.model.rule import Rule

INDENT = "    "
UNCOVERED = {"GK101": {"GK104"}}
"""What a fix may bring to light: a step that spends old gradients again hides whose else it has."""


def attach(
    findings: list[Finding], text: str, path: str, tree: ast.Module, rules: Iterable[Rule]
) -> list[Finding]:
    """The findings, with fixes where one was found that holds."""
    if not any(finding.rule in MAKERS for finding in findings):
        return findings
    source = Source(text, path, tree, lines_of(text))
    rules = tuple(rules)
    return [replace(one, fix=_tried(one, findings, source, rules)) for one in findings]


def _tried(
    finding: Finding, findings: list[Finding], source: Source, rules: tuple[Rule, ...]
) -> Fix | None:
    maker = MAKERS.get(finding.rule)
    if maker is None or finding.site.file != source.path:
        return None
    edits = maker(source, finding)
    if not edits or not _holds(finding, findings, source, edits, rules):
        return None
    return Fix(safe=finding.certain, edits=tuple(edits))


def _holds(
    finding: Finding,
    findings: list[Finding],
    source: Source,
    edits: list[Edit],
    rules: tuple[Rule, ...],
) -> bool:
    from gradkeeper.lint.check import rehearse_tree

    new = replaced(source.text, edits)
    try:
        tree = ast.parse(new)
    except (SyntaxError, ValueError):
        return False
    after = rehearse_tree(tree, source.path, rules).findings
    old = sum(1 for one in findings if one.rule == finding.rule)
    left = sum(1 for one in after if one.rule == finding.rule)
    known = {one.rule for one in findings} | UNCOVERED.get(finding.rule, set())
    news = [one for one in after if one.rule not in known and one.severity is not Severity.INFO]
    return left < old and not news


def _call_at(source: Source, finding: Finding) -> tuple[ast.stmt, ast.Call] | None:
    """The call statement that a finding stands on."""
    statement = source.statement(finding.site.line)
    if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
        return (statement, statement.value) if source.alone(statement) else None
    return None


def _stepped(source: Source, call: ast.Call) -> str | None:
    """The text of the optimizer that `optimizer.step()` or `scaler.step(optimizer)` steps."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "step":
        return None
    return source.code(call.args[0]) if call.args else source.code(func.value)


def _zero_after_step(source: Source, finding: Finding) -> list[Edit]:
    """After the step a new window begins: there, and nowhere inside one, the gradients go."""
    found = _call_at(source, finding)
    optimizer = _stepped(source, found[1]) if found else None
    if found is None or optimizer is None:
        return []
    return [source.after(found[0], f"{optimizer}.zero_grad()")]


def _move_zero_after_step(source: Source, finding: Finding) -> list[Edit]:
    found = _call_at(source, finding)
    if found is None:
        return []
    return _move_after(source, found[0], _step_of(source, finding))


def _move_after(source: Source, statement: ast.stmt, step: ast.stmt | None) -> list[Edit]:
    if step is None or not source.alone(step) or _only_one(source, statement):
        return []
    return [source.without(statement), source.after(step, source.moved(statement))]


def _only_one(source: Source, statement: ast.stmt) -> bool:
    """Taking it out would leave an empty block."""
    body = source.body_of(statement)
    return body is None or len(body[1]) == 1


def _step_of(source: Source, finding: Finding) -> ast.stmt | None:
    step = finding.where("stepped")
    told = source.statement(step.line) if step else None
    if told is not None:
        return told
    zero = source.statement(finding.site.line)
    loop = source.loop_around(zero) if zero is not None else None
    for node in ast.walk(loop) if loop is not None else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if _stepped(source, node.value) is not None:
                return node
    return None


def _zero_at_top(source: Source, finding: Finding) -> list[Edit]:
    found = _call_at(source, finding)
    loop = source.loop_around(found[0]) if found else None
    if found is None or loop is None or loop.body[0] is found[0] or _only_one(source, found[0]):
        return []
    return [source.without(found[0]), source.before(loop.body[0], source.moved(found[0]))]


def _unscale_first(source: Source, finding: Finding) -> list[Edit]:
    found = _call_at(source, finding)
    place = source.body_of(found[0]) if found else None
    if found is None or place is None:
        return []
    later = [one for one in ast.walk(source.tree) if _is_call(one, "unscale_", found[0])]
    if later and isinstance(later[0], ast.Expr) and source.alone(later[0]):
        return [source.before(found[0], source.moved(later[0])), source.without(later[0])]
    steps = [
        one
        for one in ast.walk(source.tree)
        if isinstance(one, ast.Expr) and _is_call(one, "step", found[0])
    ]
    for step in sorted(steps, key=lambda one: one.lineno):
        call = step.value
        if isinstance(call, ast.Call) and call.args and isinstance(call.func, ast.Attribute):
            scaler, optimizer = source.code(call.func.value), source.code(call.args[0])
            return [source.before(found[0], f"{scaler}.unscale_({optimizer})")]
    return []


def _is_call(node: ast.AST, name: str, after: ast.stmt) -> bool:
    """A statement `x.name(y)` not far below another."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == name
        and len(node.value.args) == 1
        and 0 < node.lineno - after.lineno < 20
    )


def _update_after_step(source: Source, finding: Finding) -> list[Edit]:
    """An update that is missing comes after the step; one inside a window moves there."""
    found = _call_at(source, finding)
    if found is None or not isinstance(found[1].func, ast.Attribute):
        return []
    statement, func = found[0], found[1].func
    if func.attr == "update":
        return _move_after(source, statement, _step_of(source, finding))
    if func.attr != "step":
        return []
    return [source.after(statement, f"{source.code(func.value)}.update()")]


def _guard(source: Source, finding: Finding) -> list[Edit]:
    """`p.grad.zero_()` becomes a block under `if p.grad is not None:`."""
    found = _call_at(source, finding)
    if found is None or not isinstance(found[1].func, ast.Attribute):
        return []
    grad = found[1].func.value
    while isinstance(grad, ast.Attribute) and grad.attr in ("data", "detach"):
        grad = grad.value
    statement = found[0]
    if statement.lineno != statement.end_lineno:
        return []
    indent = source.indent(statement)
    head = f"{indent}if {source.code(grad)} is not None:{source.newline}{INDENT}"
    place = (statement.lineno, 1)
    return [Edit(source.path, place, place, head)]


def _list_of(source: Source, finding: Finding) -> list[Edit]:
    """`params = model.parameters()` becomes `params = list(model.parameters())`."""
    statement = source.statement(finding.site.line)
    names = {node.id for node in ast.walk(statement or source.tree) if isinstance(node, ast.Name)}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Name) or target.id not in names:
            continue
        if isinstance(value, ast.Call) and _is_oneshot(value) and node.lineno < finding.site.line:
            start = (value.lineno, _column(source, value.lineno, value.col_offset))
            end_line = value.end_lineno or value.lineno
            end = (end_line, _column(source, end_line, value.end_col_offset or 0))
            return [
                Edit(source.path, start, start, "list("),
                Edit(source.path, end, end, ")"),
            ]
    return []


def _is_oneshot(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name in ("parameters", "filter", "map", "chain", "named_parameters", "from_iterable")


def _column(source: Source, line: int, offset: int) -> int:
    raw = source.lines[line - 1].encode()
    return len(raw[:offset].decode("utf-8", "replace")) + 1


MAKERS: dict[str, Callable[[Source, Finding], list[Edit]]] = {
    "GK101": _zero_after_step,
    "GK102": _move_zero_after_step,
    "GK603": _zero_at_top,
    "GK301": _unscale_first,
    "GK303": _update_after_step,
    "GK601": _guard,
    "GK306": _list_of,
}
