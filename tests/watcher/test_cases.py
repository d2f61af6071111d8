"""The labelled scripts of tests/cases, run under watch: what is at fault is found, nothing else."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.watcher.forked import watched

CASES = Path(__file__).parent.parent / "cases"
SCRIPTS = sorted(CASES.glob("*/*.py"))
EVERY = 4
"""One script in so many runs by default, all of them with --slow."""


def cases() -> list[Any]:
    found = []
    for place, script in enumerate(SCRIPTS):
        marks = [pytest.mark.slow] if place % EVERY else []
        found.append(pytest.param(script, id=f"{script.parent.name}-{script.stem}", marks=marks))
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each script runs in a fork")
@pytest.mark.parametrize("script", cases())
def test_a_script_is_judged_as_its_label_says(script: Path, tmp_path: Path) -> None:
    label = json.loads(script.with_suffix(".json").read_text())
    expected = [one for one in label["expect"] if one["runtime"]]
    allowed = {one["rule"] for one in label["expect"]} | set(label["also_ok"])

    # A fault that only the linter tells may be one that ends the script.
    found = watched(script, tmp_path, ends=not expected and bool(label["expect"])).found

    missed = [one for one in expected if not any(_meets(one, *alarm) for alarm in found)]
    beyond = [(rule, line) for rule, line in found if rule not in allowed]
    assert not missed, f"not found, only {found}"
    assert not beyond


def _meets(expected: dict[str, Any], rule: str, line: int) -> bool:
    return rule == expected["rule"] and line in expected["lines"]
