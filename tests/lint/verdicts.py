"""What the linter says of many programs at once: each in a folder of its own, one run for all."""

import contextlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradkeeper.cli import main
from gradkeeper.rules import ALL

CODES = ",".join(rule.code for rule in ALL)


@dataclass(frozen=True, order=True)
class Verdict:
    """A finding that is told by default, or one that is only possible and told on demand."""

    rule: str
    file: str
    line: int
    certain: bool = True

    def __str__(self) -> str:
        return f"{self.rule} {self.file}:{self.line}{'' if self.certain else ' (possible)'}"


def read(folder: Path, programs: Mapping[str, Mapping[str, str]]) -> dict[str, set[Verdict]]:
    """The findings of each program, given as its files' texts; infos that are certain left out."""
    for name, texts in programs.items():
        (folder / name).mkdir(parents=True)
        for file, text in texts.items():
            (folder / name / file).write_text(text)
    found: dict[str, set[Verdict]] = {name: set() for name in programs}
    for one in _checked(folder):
        path = Path(one["path"]).resolve().relative_to(folder.resolve())
        loud = one["severity"] != "info"
        if loud or not one["certain"]:
            found[path.parts[0]].add(Verdict(one["rule"], path.name, one["line"], loud))
    return found


def _checked(folder: Path) -> list[dict[str, Any]]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(["check", "--format", "json", "--extend-select", CODES, str(folder)])
    assert code in (0, 1), f"not all of {folder} was checked"
    findings: list[dict[str, Any]] = json.loads(out.getvalue())["findings"]
    return findings
