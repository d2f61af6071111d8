"""Every rule is listed, has a code of its own, and a document that says and shows enough."""

import re
from pathlib import Path

import pytest

import gradkeeper.rules
from gradkeeper.model import Rule, Severity
from gradkeeper.model.events import KINDS
from gradkeeper.model.ledger import HANDLERS
from gradkeeper.rules import ALL

DESIGN = {
    "GK000": ("unparsable", "error"),
    "GK001": ("not-checked", "warning"),
    "GK101": ("stale-gradient", "error"),
    "GK102": ("discarded-gradient", "error"),
    "GK103": ("empty-step", "warning"),
    "GK104": ("foreign-gradient", "error"),
    "GK105": ("orphan-parameter", "warning"),
    "GK106": ("starved-parameter", "info"),
    "GK107": ("never-stepped", "warning"),
    "GK201": ("unnormalised-window", "warning"),
    "GK202": ("uneven-window", "warning"),
    "GK203": ("dropped-tail", "warning"),
    "GK204": ("mean-of-means", "warning"),
    "GK205": ("scheduler-out-of-step", "warning"),
    "GK206": ("batch-coupled-window", "info"),
    "GK207": ("window-divided-twice", "warning"),
    "GK301": ("clip-scaled-gradient", "error"),
    "GK302": ("scaler-bypassed", "error"),
    "GK303": ("scaler-not-updated", "warning"),
    "GK304": ("misplaced-clip", "error"),
    "GK305": ("nonfinite-spent", "error"),
    "GK306": ("exhausted-parameters", "error"),
    "GK307": ("fp16-without-scaler", "warning"),
    "GK401": ("pending-not-saved", "warning"),
    "GK402": ("pending-zeroed-on-resume", "error"),
    "GK403": ("gradient-outlives-load", "error"),
    "GK404": ("optimizer-not-restored", "warning"),
    "GK405": ("data-starts-over", "warning"),
    "GK501": ("unsynced-spend", "error"),
    "GK502": ("sync-every-microbatch", "info"),
    "GK503": ("ranks-disagree", "error"),
    "GK504": ("replicas-differ", "error"),
    "GK505": ("same-epoch-order", "warning"),
    "GK601": ("none-grad-access", "warning"),
    "GK602": ("zero-scope-mismatch", "warning"),
    "GK603": ("late-zero", "info"),
    "GK604": ("optimizer-in-loop", "warning"),
    "GK605": ("swallowed-fault", "warning"),
    "GK606": ("graph-kept-alive", "info"),
}
NEEDS_SEVERAL_PROCESSES = {"GK503"}
NEEDS_THE_TEXT = {"GK000", "GK001"}
NEEDS_A_FAILURE = {"GK001"}

each_rule = pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)


def test_codes_names_and_severities_are_those_promised() -> None:
    assert {rule.code: (rule.name, str(rule.severity)) for rule in ALL} == DESIGN


def test_every_rule_file_is_in_the_tuple_and_named_after_its_rule() -> None:
    folder = Path(gradkeeper.rules.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}

    assert {rule.name.replace("-", "_") for rule in ALL} == files


def test_codes_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in ALL]

    assert codes == sorted(set(codes))


@each_rule
def test_a_document_begins_with_one_sentence_and_says_how_to_fix_it(rule: Rule) -> None:
    summary, rest = rule.document.split("\n\n", 1)

    assert re.fullmatch(r"[A-Z`][^\n]*\.", summary), summary
    assert "To fix it, " in rest
    assert rule.severity is Severity.INFO or "To see it, " in rest


@each_rule
def test_a_document_holds_a_bad_block_with_a_mark_and_a_good_one_without(rule: Rule) -> None:
    if rule.code in NEEDS_SEVERAL_PROCESSES:
        pytest.skip("one process has nothing to compare")
    if rule.code in NEEDS_A_FAILURE:
        pytest.skip("no example is too large, and gradkeeper fails on none that we know")

    bad, good = rule.blocks

    assert (bad.kind, good.kind) == ("bad", "good")
    assert len(bad.marked) == 1
    assert good.marked == []


@each_rule
def test_every_block_is_python(rule: Rule) -> None:
    for block in rule.blocks:
        if rule.code in NEEDS_THE_TEXT and block.kind == "bad":
            continue
        assert compile(block.code, rule.code, "exec")


@each_rule
def test_a_rule_looks_at_something(rule: Rule) -> None:
    assert bool(rule.checks) != (rule.code in NEEDS_THE_TEXT)


@each_rule
def test_a_rule_has_a_test_beside_it(rule: Rule) -> None:
    name = rule.name.replace("-", "_")
    if rule.code in NEEDS_THE_TEXT:
        pytest.skip("judged where text is read")

    assert Path(__file__).with_name(f"test_{name}.py").exists()


def test_every_kind_of_event_has_a_handler_and_a_name_on_tape() -> None:
    assert set(HANDLERS) == set(KINDS.values())
