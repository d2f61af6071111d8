"""SARIF 2.1.0: the parts that code scanning reads."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from gradkeeper.lint import check_source
from gradkeeper.model.finding import Finding
from gradkeeper.report import sarif
from gradkeeper.rules import ALL
from tests.report.sarif_schema import SCHEMA

CODE = """import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    model(x).mean().backward()
    optimizer.step()
"""


def rendered() -> dict[str, Any]:
    found = check_source(CODE, "my train.py", ALL).findings
    report: dict[str, Any] = json.loads(sarif.render(found, ALL))
    return report


def test_a_result_names_its_rule_its_place_and_its_level() -> None:
    report = rendered()

    (run,) = report["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert report["version"] == "2.1.0"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "GK101"
    assert result["level"] == "error"
    assert place["artifactLocation"]["uri"] == "my%20train.py"
    assert place["region"] == {"startLine": 6, "startColumn": 5}


def test_a_fingerprint_is_the_same_each_time_and_a_fix_is_told() -> None:
    one, other = rendered(), rendered()

    (result,) = one["runs"][0]["results"]
    assert result["partialFingerprints"] == other["runs"][0]["results"][0]["partialFingerprints"]
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"]["text"].strip() == "optimizer.zero_grad()"


def test_no_findings_make_an_empty_run() -> None:
    assert json.loads(sarif.render([]))["runs"][0]["results"] == []


def test_a_rule_brings_its_document_as_text_and_as_markdown() -> None:
    (rule,) = rendered()["runs"][0]["tool"]["driver"]["rules"]

    assert rule["shortDescription"]["text"].startswith("A step applies a gradient that an earlier")
    assert rule["help"]["text"].startswith("GK101 stale-gradient [error]\n")
    assert rule["help"]["markdown"].startswith("# GK101 stale-gradient [error]\n")
    assert "Wrong:\n\n```python\n" in rule["help"]["markdown"]
    assert "```python bad" not in rule["help"]["markdown"]
    assert rule["defaultConfiguration"] == {"level": "error"}


def test_a_rule_that_is_not_known_names_the_command_that_explains_it() -> None:
    found = check_source(CODE, "train.py", ALL).findings

    (rule,) = json.loads(sarif.render(found))["runs"][0]["tool"]["driver"]["rules"]

    assert rule["help"] == {"text": "gradkeeper explain GK101"}


def faults(report: dict[str, Any]) -> list[str]:
    return [one.message for one in Draft202012Validator(SCHEMA).iter_errors(report)]


def findings_of_all_examples() -> list[Finding]:
    return [
        finding
        for rule in ALL
        for block in rule.blocks
        for finding in check_source(block.code, f"näh {rule.code}%.py", ALL).findings
    ]


def test_a_report_of_every_rule_is_what_the_standard_asks_for() -> None:
    report = json.loads(sarif.render(findings_of_all_examples(), ALL))

    results = report["runs"][0]["results"]
    assert faults(report) == []
    assert all(one["partialFingerprints"] for one in results)
    assert {one["ruleId"] for one in results if "fixes" in one} >= {"GK101", "GK301", "GK601"}


def test_the_schema_of_the_standard_itself_finds_nothing_to_mend() -> None:
    """Its licence is its own, so that it is not kept here: a copy is asked for by its place."""
    place = os.environ.get("SARIF_SCHEMA")
    if not place:
        pytest.skip("SARIF_SCHEMA names no copy of OASIS's sarif-schema-2.1.0.json")
    schema = json.loads(Path(place).read_text())
    standard = validator_for(schema)(schema)
    report = json.loads(sarif.render(findings_of_all_examples(), ALL))

    assert list(standard.iter_errors(report)) == []
    assert list(standard.iter_errors({**report, "version": "1"}))


@pytest.mark.parametrize(
    ("place", "wrong"),
    [(("level",), "fatal"), (("locatoins",), []), (("fixes", 0, "artifactChanges"), [])],
)
def test_the_schema_refuses_what_the_standard_does(place: tuple[Any, ...], wrong: Any) -> None:
    report = copy.deepcopy(rendered())
    part = report["runs"][0]["results"][0]
    for key in place[:-1]:
        part = part[key]

    part[place[-1]] = wrong

    assert faults(report)
