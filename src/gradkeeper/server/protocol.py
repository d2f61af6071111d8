"""Findings in the words of the Language Server Protocol: diagnostics, hovers, code actions."""

import os
import re
from collections.abc import Callable, Iterable, Iterator

from lsprotocol import types as lsp
from pygls import uris

from gradkeeper.model.finding import Edit, Finding, Severity
from gradkeeper.report import rule_document
from gradkeeper.rules import ALL
from gradkeeper.server.positions import Text

SOURCE = "gradkeeper"
SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.INFO: lsp.DiagnosticSeverity.Information,
}
RULES = {rule.code: rule for rule in ALL} | {rule.name: rule for rule in ALL}
FIX_ALL = "source.fixAll.gradkeeper"
COMMENT = re.compile(r"#\s*(?:gradkeeper:|noqa)", re.I)

TextOf = Callable[[str], Text]
"""A file as it stands in the editor, or on disk."""


def uri_of(path: str) -> str:
    return str(uris.from_fs_path(os.path.abspath(path)) or "")


def path_of(uri: str) -> str | None:
    """None for what is no file: a note that was never saved, a page of a repository."""
    if not uri.startswith("file:"):
        return None
    return os.path.normpath(str(uris.to_fs_path(uri)))


def diagnostic(finding: Finding, text_of: TextOf, folders: Iterable[str]) -> lsp.Diagnostic:
    site = finding.site
    where = "" if finding.when is None else f", where {finding.when}"
    lines = [f"{finding.message}{where}", finding.detail]
    lines.append(f"remedy: {finding.remedy}" if finding.remedy else "")
    return lsp.Diagnostic(
        range=_span(finding, text_of(site.file)),
        message=_nearer("\n".join(filter(None, lines)), folders),
        severity=SEVERITIES[finding.severity],
        code=finding.rule,
        source=SOURCE,
        related_information=[
            lsp.DiagnosticRelatedInformation(
                location=lsp.Location(
                    uri_of(reason.site.file),
                    _line(reason.site.line, reason.site.column, text_of(reason.site.file)),
                ),
                message=_nearer(reason.note, folders),
            )
            for reason in finding.because
            if reason.cell is None
        ],
    )


def hover(findings: Iterable[Finding], line: int, unit: int, text: Text) -> lsp.Hover | None:
    """The documents of the rules that speak of a line, or of one that a comment names."""
    codes = {finding.rule: finding for finding in findings if finding.site.line == line + 1}
    named = RULES.get(text.word(line, unit)) if COMMENT.search(text.line(line + 1)) else None
    rules = [named] if named else [RULES[code] for code in sorted(codes) if code in RULES]
    if not rules:
        return None
    words = "\n\n---\n\n".join(map(rule_document.markdown, rules))
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, words))


def actions(finding: Finding, text_of: TextOf, folders: Iterable[str]) -> Iterator[lsp.CodeAction]:
    """What mends a finding, and what silences it."""
    told = [diagnostic(finding, text_of, folders)]
    if finding.fix is not None:
        doubt = "" if finding.fix.safe else " (may change what was meant)"
        yield lsp.CodeAction(
            title=f"{finding.rule}: {finding.remedy}{doubt}",
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=told,
            is_preferred=finding.fix.safe,
            edit=_edit(finding.fix.edits, text_of),
        )
    yield lsp.CodeAction(
        title=f"{finding.rule}: allow {finding.name} on this line",
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=told,
        edit=_edit([_allowance(finding, text_of(finding.site.file))], text_of),
    )


def fix_all(path: str, new: str, text: Text) -> lsp.CodeAction:
    everything = lsp.Range(lsp.Position(0, 0), _at(text.end_of_line(len(text.lines) + 1)))
    return lsp.CodeAction(
        title="gradkeeper: apply all safe fixes",
        kind=FIX_ALL,
        edit=lsp.WorkspaceEdit(changes={uri_of(path): [lsp.TextEdit(everything, new)]}),
    )


def _allowance(finding: Finding, text: Text) -> Edit:
    """A comment at the end of the line; above it, where a backslash ends it."""
    line = finding.site.line
    code = text.line(line)
    words = f"# gradkeeper: allow {finding.name}"
    if code.endswith("\\"):
        margin = code[: len(code) - len(code.lstrip())]
        return Edit(finding.site.file, (line, 1), (line, 1), f"{margin}{words}\n")
    end = (line, len(code) + 1)
    return Edit(finding.site.file, end, end, f"  {words}")


def _edit(edits: Iterable[Edit], text_of: TextOf) -> lsp.WorkspaceEdit:
    changes: dict[str, list[lsp.TextEdit]] = {}
    for edit in edits:
        text = text_of(edit.path)
        span = lsp.Range(_at(text.position(*edit.start)), _at(text.position(*edit.end)))
        changes.setdefault(uri_of(edit.path), []).append(lsp.TextEdit(span, edit.text))
    return lsp.WorkspaceEdit(changes=changes)


def _span(finding: Finding, text: Text) -> lsp.Range:
    return _line(finding.site.line, finding.site.column, text)


def _line(line: int, column: int, text: Text) -> lsp.Range:
    return lsp.Range(_at(text.position(line, column)), _at(text.end_of_code(line, column)))


def _at(place: tuple[int, int]) -> lsp.Position:
    return lsp.Position(*place)


def _nearer(words: str, folders: Iterable[str]) -> str:
    """Files as they are called inside the workspace."""
    for folder in folders:
        words = words.replace(folder.rstrip(os.sep) + os.sep, "")
    return words
