"""The labelled scripts, read and run: both front ends tell the same rules, where both can see."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gradkeeper.lint.check import check_source
from gradkeeper.model import Severity
from gradkeeper.rules import ALL
from tests.watcher.forked import watched
from tests.watcher.test_cases import SCRIPTS

EVERY = 24
"""One script in so many is compared by default, all of them with --slow."""


def label_of(script: Path) -> dict[str, Any]:
    label: dict[str, Any] = json.loads(script.with_suffix(".json").read_text())
    return label


def both_can_see(script: Path) -> bool:
    expected = label_of(script)["expect"]
    return all(one["static"] and one["runtime"] for one in expected)


def cases() -> list[Any]:
    seen = [script for script in SCRIPTS if both_can_see(script)]
    return [
        pytest.param(
            script,
            id=f"{script.parent.name}-{script.stem}",
            marks=[pytest.mark.slow] if place % EVERY else [],
        )
        for place, script in enumerate(seen)
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each script runs in a fork")
@pytest.mark.parametrize("script", cases())
def test_reading_and_running_tell_the_same(script: Path, tmp_path: Path) -> None:
    allowed = set(label_of(script)["also_ok"])
    text = script.read_text()

    read = check_source(text, str(script), ALL, fixes=False).findings
    ran = watched(script, tmp_path).found

    by_reading = {one.rule for one in read if one.severity is not Severity.INFO and one.certain}
    by_running = {rule for rule, _ in ran}
    assert by_reading ^ by_running <= allowed
