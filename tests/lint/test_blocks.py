"""Every rule's own examples, judged without running them."""

import pytest

from gradkeeper.lint import check_source
from gradkeeper.model.finding import Severity
from gradkeeper.model.rule import Block, Rule
from gradkeeper.rules import ALL

EXAMPLES = [
    pytest.param(rule, block, id=f"{rule.code}-{block.kind}")
    for rule in ALL
    for block in rule.blocks
    if block.side != "runtime"
]


@pytest.mark.parametrize(("rule", "block"), EXAMPLES)
def test_a_rules_example_gets_the_verdict_that_its_document_claims(
    rule: Rule, block: Block
) -> None:
    found = check_source(block.code, "block.py", ALL, fixes=False).findings

    own = [one.site.line for one in found if one.rule == rule.code]
    others = [one for one in found if one.rule != rule.code and one.severity != Severity.INFO]

    assert own == (block.marked if block.kind == "bad" else [])
    assert not others
