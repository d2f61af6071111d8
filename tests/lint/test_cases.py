"""Whole scripts with known faults, and whole scripts without, read by the linter."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradkeeper.lint.check import check_bytes
from gradkeeper.model.finding import Finding, Severity

CASES = Path(__file__).parents[1] / "cases"


def labelled(folder: Path) -> list[Any]:
    return [
        pytest.param(path, id=f"{path.parent.name}-{path.stem}")
        for path in sorted(folder.glob("*/*.py"))
    ]


def loud(script: Path) -> list[Finding]:
    raw = script.read_bytes()
    found = check_bytes(raw, str(script), fixes=False).findings
    return [one for one in found if one.severity is not Severity.INFO]


def labels_of(script: Path) -> dict[str, Any]:
    labels: dict[str, Any] = json.loads(script.with_suffix(".json").read_text())
    return labels


@pytest.mark.parametrize("script", labelled(CASES))
def test_a_script_gets_the_findings_of_its_label_and_no_others(script: Path) -> None:
    labels = labels_of(script)

    told = loud(script)

    for fault in labels["expect"]:
        if fault["static"]:
            assert any(
                one.rule == fault["rule"] and one.site.line in fault["lines"] for one in told
            )
    allowed = {fault["rule"] for fault in labels["expect"]} | set(labels["also_ok"])
    assert [one for one in told if one.rule not in allowed] == []


def test_there_are_scripts_of_both_kinds() -> None:
    kinds = {path.parent.name for path in CASES.glob("*/*.py")}

    assert kinds == {"bug", "ok"}
