"""Linter and watcher judge every rule's own examples alike: same rule, same line, same weight."""

from pathlib import Path

import pytest

from gradkeeper.lint import check_source
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.rule import Block, Rule
from gradkeeper.rules import ALL
from tests.watcher.loops import run

Verdict = set[tuple[str, int, Severity]]
EXAMPLES = [
    pytest.param(rule, block, id=f"{rule.code}-{block.kind}-{number}")
    for rule in ALL
    for number, block in enumerate(rule.blocks)
    if not block.side
]
PYTORCH_SAYS_SO = (
    "ignore:`parameters` is an empty generator",
    "ignore:Detected call of `lr_scheduler",
    "ignore:'set_vital' is deprecated",
)


def verdict(findings: list[Finding], rule: Rule) -> Verdict:
    """What is told by default, and the rule's own findings whatever their severity."""
    return {
        (one.rule, one.site.line, one.severity)
        for one in findings
        if one.severity is not Severity.INFO or one.rule == rule.code
    }


def by_reading(rule: Rule, block: Block) -> Verdict:
    return verdict(check_source(block.code, "block.py", ALL, fixes=False).findings, rule)


def by_running(rule: Rule, block: Block, folder: Path) -> Verdict:
    watch = run(folder, block.code, header="").watch
    return verdict([*watch.findings, *watch.infos], rule)


@pytest.mark.filterwarnings(*PYTORCH_SAYS_SO)
@pytest.mark.parametrize(("rule", "block"), EXAMPLES)
def test_reading_an_example_and_running_it_give_the_same_verdict(
    rule: Rule, block: Block, tmp_path: Path
) -> None:
    assert by_reading(rule, block) == by_running(rule, block, tmp_path)


def test_the_comparison_can_fail(tmp_path: Path) -> None:
    rule = next(one for one in ALL if one.code == "GK305")
    block = next(one for one in rule.blocks if one.kind == "bad")

    assert block.side == "runtime"
    assert by_reading(rule, block) != by_running(rule, block, tmp_path)
