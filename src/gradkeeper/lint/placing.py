"""Where statements stand in a text, and edits that put one before, after or out of it."""

import ast
from dataclasses import dataclass

from gradkeeper.model.finding import Edit


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
