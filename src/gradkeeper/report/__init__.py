"""How findings are shown. Each module is one format; `FORMATS` names them for the command line.

text         for a terminal: the line, the account, the way out
json_format  for programs
sarif        for code scanning
github       annotations on the lines of a pull request
html         a fragment for notebooks
statement    a run's gradients, window by window, as one page
source       the user's files as a report shows them
paint        colour, where it is wanted
"""

from collections.abc import Callable, Iterable

from gradkeeper.model import Finding
from gradkeeper.report import github, json_format, sarif, text

Format = Callable[[Iterable[Finding]], str]

FORMATS: dict[str, Format] = {
    "text": text.render,
    "json": json_format.render,
    "sarif": sarif.render,
    "github": github.render,
}
