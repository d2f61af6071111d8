"""How findings are shown. Each module is one format; `FORMATS` names them for the command line."""

from collections.abc import Callable, Iterable

from gradkeeper.model import Finding
from gradkeeper.report import json_format, text

Format = Callable[[Iterable[Finding]], str]

FORMATS: dict[str, Format] = {
    "text": text.render,
    "json": json_format.render,
}
