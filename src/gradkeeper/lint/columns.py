"""Columns as people count them. Python's syntax trees count the bytes of a line in UTF-8."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from gradkeeper.lint.files import Sources, decode, lines_of
from gradkeeper.model.finding import Finding
from gradkeeper.model.site import Site

Lines = Callable[[str], list[str]]
"""Of a file, by its path; none where it cannot be read."""


def in_letters(findings: Iterable[Finding], sources: Sources) -> list[Finding]:
    """The findings, with columns that count letters."""
    known: dict[str, list[str]] = {}

    def lines(path: str) -> list[str]:
        if path not in known:
            try:
                known[path] = lines_of(decode(sources.read(path))[0])
            except OSError:
                known[path] = []
        return known[path]

    return [_counted(finding, lines) for finding in findings]


def _counted(finding: Finding, lines: Lines) -> Finding:
    because = tuple(replace(reason, site=_moved(reason.site, lines)) for reason in finding.because)
    return replace(finding, site=_moved(finding.site, lines), because=because)


def _moved(site: Site, lines: Lines) -> Site:
    if site.column <= 1:
        return site
    text = lines(site.file)[site.line - 1 : site.line]
    if not text or text[0].isascii():
        return site
    before = text[0].encode("utf-8", "surrogatepass")[: site.column - 1]
    return site._replace(column=len(before.decode("utf-8", "ignore")) + 1)
