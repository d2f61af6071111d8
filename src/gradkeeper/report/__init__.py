"""How findings are shown. Each module is one format; `FORMATS` names them for the command line."""

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
