"""How findings are shown. Each module is one format; `FORMATS` names them for the command line.

text           for a terminal: the line, the account, the way out
json_format    for programs
sarif          for code scanning
github         annotations on the lines of a pull request
html           a fragment for notebooks
statement      a run's gradients, window by window, as one page
rule_document  what a rule says of itself, as text and as Markdown
source         the user's files as a report shows them
paint          colour, where it is wanted
"""

from collections.abc import Callable, Iterable
from importlib import import_module

from gradkeeper.model import Finding

Format = Callable[[Iterable[Finding]], str]


def _format(module: str) -> Format:
    """A format that is imported when it is asked for: a commit hook waits for none of them."""

    def render(findings: Iterable[Finding]) -> str:
        found: str = import_module(f"gradkeeper.report.{module}").render(findings)
        return found

    return render


FORMATS: dict[str, Format] = {
    "text": _format("text"),
    "json": _format("json_format"),
    "sarif": _format("sarif"),
    "github": _format("github"),
}
