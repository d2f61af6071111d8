"""Fixes: edits on the original text, each tried before it is offered; applying and showing them.

From the statements of a source to edits, from edits to a new text, and on until none is left to
apply. Which lines to change is told by the roles of a finding's `because`, never by its words.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from gradkeeper.lint.files import decode, lines_of
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Edit, Finding, Fix, Severity
from gradkeeper.model.rule import Rule

INDENT = "    "
NO_NEWLINE = "\n\\ No newline at end of file\n"
MOST_ROUNDS = 8
UNCOVERED = {"GK101": {"GK104"}}
"""What a fix may bring to light: a step that spends old gradients again hides whose else it has."""
Recheck = Callable[[str], list[Finding]]
"""What would be said of the same file with another text, in the program that it belongs to."""
CheckBytes = Callable[[bytes], list[Finding]]


@dataclass(slots=True)
class Source:
    """A file's text with the places of its statements."""

    text: str
    path: str
    tree: ast.Module
    lines: list[str]

    def statement(self, line: int) -> ast.stmt | None:
        """The innermost statement that begins on a line or spans it."""
        found: ast.stmt | None = None
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
                if found is None or node.lineno >= found.lineno:
                    found = node
        return found

    def body_of(self, wanted: ast.stmt) -> tuple[ast.AST, list[ast.stmt]] | None:
        for node in ast.walk(self.tree):
            for name in ("body", "orelse", "finalbody"):
                body = getattr(node, name, None)
                if isinstance(body, list) and wanted in body:
                    return node, body
        return None

    def loop_around(self, wanted: ast.stmt) -> ast.For | ast.While | None:
        found = None
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.For, ast.While)):
                if node.lineno < wanted.lineno <= (node.end_lineno or 0):
                    if found is None or node.lineno > found.lineno:
                        found = node
        return found

    def indent(self, node: ast.stmt) -> str:
        line = self.lines[node.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def alone(self, node: ast.stmt) -> bool:
        """It has its lines to itself."""
        first, last = self.lines[node.lineno - 1], self.lines[(node.end_lineno or 1) - 1]
        rest = last.encode()[node.end_col_offset or 0 :].decode("utf-8", "replace").strip()
        return not first[: len(self.indent(node))].strip() and (
            first.encode()[: node.col_offset].strip() == b"" and (not rest or rest[0] == "#")
        )

    def code(self, node: ast.AST) -> str:
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    def moved(self, node: ast.stmt) -> str:
        """A statement as it goes elsewhere: with the comment on its line."""
        if node.lineno == node.end_lineno:
            return self.lines[node.lineno - 1].strip()
        return self.code(node)

    def before(self, node: ast.stmt, new: str) -> Edit:
        place = (node.lineno, 1)
        return Edit(self.path, place, place, f"{self.indent(node)}{new}{self.newline}")

    def after(self, node: ast.stmt, new: str) -> Edit:
        place = ((node.end_lineno or node.lineno) + 1, 1)
        text = f"{self.indent(node)}{new}{self.newline}"
        if place[0] > len(self.lines):
            last = self.lines[-1]
            place = (len(self.lines), len(last.rstrip("\r\n")) + 1)
            text = f"{self.newline}{self.indent(node)}{new}"
        return Edit(self.path, place, place, text)

    def without(self, node: ast.stmt) -> Edit:
        return Edit(self.path, (node.lineno, 1), ((node.end_lineno or node.lineno) + 1, 1), "")

    @property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"


def attach(
    findings: list[Finding],
    text: str,
    path: str,
    tree: ast.Module,
    again: Recheck,
    known: list[Finding] | None = None,
) -> list[Finding]:
    """The findings, with fixes where one was found that holds.

    `known`: all that `again` would find if nothing changed, if that is more than the findings.
    """
    if not any(finding.rule in MAKERS for finding in findings):
        return findings
    source = Source(text, path, tree, lines_of(text))
    return [
        replace(other, fix=_tried(other, known or findings, source, again)) for other in findings
    ]


def _tried(finding: Finding, findings: list[Finding], source: Source, again: Recheck) -> Fix | None:
    maker = MAKERS.get(finding.rule)
    if maker is None or finding.site.file != source.path:
        return None
    edits = maker(source, finding)
    if not edits or not _holds(finding, findings, source, edits, again):
        return None
    return Fix(safe=finding.certain, edits=tuple(edits))


def _holds(
    finding: Finding,
    findings: list[Finding],
    source: Source,
    edits: list[Edit],
    again: Recheck,
) -> bool:
    after = again(replaced(source.text, edits))
    old = sum(1 for other in findings if other.rule == finding.rule)
    left = sum(1 for other in after if other.rule == finding.rule)
    return left < old and not any(_is_new(other, finding, findings) for other in after)


def _is_new(finding: Finding, fixed: Finding, findings: list[Finding]) -> bool:
    """Of another file by its line, which has not moved; of the same one by its rule."""
    if finding.severity is Severity.INFO:
        return False
    if finding.site.file != fixed.site.file:
        known = {(other.rule, other.site.file, other.site.line) for other in findings}
        return (finding.rule, finding.site.file, finding.site.line) not in known
    rules = {other.rule for other in findings} | UNCOVERED.get(fixed.rule, set())
    return finding.rule not in rules


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
    """The step that the finding speaks of, if it stands in the same file."""
    step = finding.where("stepped")
    if step is None or step.file != source.path:
        return None
    return source.statement(step.line)


def _zero_at_top(source: Source, finding: Finding) -> list[Edit]:
    found = _call_at(source, finding)
    loop = source.loop_around(found[0]) if found else None
    if found is None or loop is None or loop.body[0] is found[0] or _only_one(source, found[0]):
        return []
    return [source.without(found[0]), source.before(loop.body[0], source.moved(found[0]))]


def _unscale_first(source: Source, finding: Finding) -> list[Edit]:
    """An unscale_() that comes too late moves up; one that is missing is written from the step."""
    found = _call_at(source, finding)
    step = _step_of(source, finding)
    call = step.value if isinstance(step, ast.Expr) else None
    if found is None or step is None or not isinstance(call, ast.Call):
        return []
    for late in _statements_between(source, found[0], step):
        if _is_method(late.value, "unscale_") and source.alone(late):
            return [source.before(found[0], source.moved(late)), source.without(late)]
    if not _is_method(call, "step") or len(call.args) != 1:
        return []
    assert isinstance(call.func, ast.Attribute)
    scaler, optimizer = source.code(call.func.value), source.code(call.args[0])
    return [source.before(found[0], f"{scaler}.unscale_({optimizer})")]


def _statements_between(source: Source, first: ast.stmt, last: ast.stmt) -> list[ast.Expr]:
    found = [statement for statement in ast.walk(source.tree) if isinstance(statement, ast.Expr)]
    return [statement for statement in found if first.lineno < statement.lineno < last.lineno]


def _is_method(node: ast.expr, name: str) -> bool:
    """A call `x.name(...)`."""
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == name


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


def offsets(text: str) -> list[int]:
    """Where each line begins."""
    found = [0]
    for line in lines_of(text):
        found.append(found[-1] + len(line))
    return found


def replaced(text: str, edits: Iterable[Edit]) -> str:
    starts = offsets(text)
    spans = sorted(
        (starts[e.start[0] - 1] + e.start[1] - 1, starts[e.end[0] - 1] + e.end[1] - 1, e.text)
        for e in edits
    )
    for start, end, new in reversed(spans):
        text = text[:start] + new + text[end:]
    return text


def apply(text: str, findings: Iterable[Finding]) -> tuple[str, list[Finding]]:
    """The text with all fixes that don't touch each other, and the findings they mend."""
    taken: list[Edit] = []
    done: list[Finding] = []
    for finding in findings:
        if finding.fix is None:
            continue
        if any(_touch(edit, other) for edit in finding.fix.edits for other in taken):
            continue
        taken.extend(finding.fix.edits)
        done.append(finding)
    return replaced(text, taken), done


def _touch(edit: Edit, other: Edit) -> bool:
    return edit.start <= other.end and other.start <= edit.end


def diff(old: str, new: str, path: str) -> str:
    from difflib import unified_diff

    lines = unified_diff(lines_of(old), lines_of(new), f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}{NO_NEWLINE}" for line in lines)


@dataclass(slots=True)
class Mended:
    old: str
    new: str
    encoding: str
    fixed: int = 0
    left: tuple[Finding, ...] = ()
    rules: frozenset[str] = frozenset()
    """Those whose findings were fixed."""

    @property
    def raw(self) -> bytes:
        return self.new.encode(self.encoding)


def mend(raw: bytes, findings: Iterable[Finding], check: CheckBytes, *, unsafe: bool) -> Mended:
    """One fix may stand in another's way, or show what it had hidden: so each round looks anew."""
    text, encoding = decode(raw)
    mended = Mended(text, text, encoding, left=tuple(findings))
    for _ in range(MOST_ROUNDS):
        usable = [
            finding
            for finding in mended.left
            if finding.fix is not None and (finding.fix.safe or unsafe)
        ]
        if not usable:
            break
        mended.new, done = apply(mended.new, usable)
        mended.fixed += len(done)
        mended.rules |= {finding.rule for finding in done}
        mended.left = tuple(check(mended.raw))
    return mended


ZEROED = "GK101"
"""What is fixed by zeroing after a step; whatever else the step applies, it goes on applying."""
shared = Rule("GK104", "foreign-gradient", Severity.INFO, "")
"""Never told by itself, because it may be meant. Who has just fixed the step should know."""


@shared.at(Step)
def _also_spends(entry: Entry[Step]) -> Iterator[Finding]:
    if entry.owner is None:
        return
    here, owner = entry.event.site, entry.owner.name
    own = {credit.site for credit in entry.spent if not credit.spent_by}
    for credit in entry.spent:
        if own and credit.spent_by and credit.site not in own:
            first = " and ".join(f"`{name}`" for name in sorted(credit.spent_by))
            yield shared.found(
                entry,
                f"`{owner}` still applies the gradient of {credit.site.seen_from(here)} as well, "
                f"which {first} has applied",
                detail="",
                remedy=f"if that loss is for {first} alone, detach() what it gets from `{owner}`",
            )
            return
