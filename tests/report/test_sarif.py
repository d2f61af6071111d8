"""SARIF 2.1.0: the parts that code scanning reads."""

import json
from typing import Any

from gradkeeper.lint import check_source
from gradkeeper.report import sarif
from gradkeeper.rules import ALL

CODE = """import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    model(x).mean().backward()
    optimizer.step()
"""


def rendered() -> dict[str, Any]:
    found = check_source(CODE, "my train.py", ALL).findings
    report: dict[str, Any] = json.loads(sarif.render(found))
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
