"""Every rule's own examples, run for real: the marked lines are reported, and nothing else."""

from pathlib import Path

import pytest

from gradkeeper.model.rule import Block, Rule
from gradkeeper.rules import ALL
from tests.rules.test_same_verdict import PYTORCH_SAYS_SO
from tests.watcher.loops import run

BLOCKS = [
    pytest.param(rule, block, id=f"{rule.code}-{block.kind}-{number}")
    for rule in ALL
    for number, block in enumerate(rule.blocks)
    if block.side != "static" and rule.code != "GK504"
]
"""GK504 needs several ranks: test_ranks.py."""


@pytest.mark.filterwarnings(*PYTORCH_SAYS_SO)
@pytest.mark.parametrize(("rule", "block"), BLOCKS)
def test_an_example_is_judged_as_its_rule_says(rule: Rule, block: Block, tmp_path: Path) -> None:
    loop = run(tmp_path, block.code, header="")

    marked = [f"{rule.code}:{line}" for line in block.marked]
    own = [one for one in loop.everything if one.startswith(rule.code)]
    alarms = [one for one in loop.found if not one.startswith(rule.code)]
    assert own == marked
    assert alarms == []
