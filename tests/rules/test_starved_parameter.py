from gradkeeper.model import Severity
from gradkeeper.rules.starved_parameter import rule
from tests.script import Script, block, marked, mean, over_model

LOOP = """\
import torch
optimizer = SGD(model)
other = SGD(unused)
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    other.step()
    p.lerp_(q, 0.1)
"""


def test_a_layer_left_out_of_forward_is_noted_where_its_optimizer_is_built() -> None:
    script = block(rule, "bad")
    script.build("used", "forgotten")
    script.train(6, "used", **mean())
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == []


def test_a_model_whose_every_layer_is_reached_is_silent() -> None:
    script = over_model(block(rule, "good"))
    script.train(6, **mean())
    script.close()

    assert script.findings() == []


def test_the_finding_counts_the_parameters_and_is_an_info() -> None:
    script = Script(LOOP)
    script.open("import", account="forgotten", parameters=("weight", "bias"), size=2)
    script.build("used", "forgotten")
    script.train(2, "used")
    script.close()

    (finding,) = script.findings()

    assert finding.severity == Severity.INFO
    assert finding.message == "`optimizer` owns `forgotten`, which no loss has reached"
    assert finding.detail == "account `forgotten`: never credited"
    assert finding.remedy == "leave it out of the optimizer, or let the loss reach it"
    assert finding.because == ()


def test_an_optimizer_whose_every_parameter_starves_is_a_warning() -> None:
    script = over_model(Script(LOOP))
    script.build("unused", optimizer="other")
    for _ in range(3):
        script.train(1)
        script.spend("other")
    script.close()

    (finding,) = [one for one in script.findings() if one.rule == rule.code]

    assert finding.severity == Severity.WARNING
    assert finding.site.line == 3
    assert finding.detail == ("account `unused`: never credited; `other` owns nothing else")


def test_an_optimizer_that_was_built_and_never_used_is_an_info() -> None:
    script = over_model(Script(LOOP))
    script.build("unused", optimizer="other")
    script.train(3)
    script.close()

    assert script.lines_of(rule) == [3]
    assert script.alarms() == []


def test_a_head_that_one_batch_reached_does_not_starve() -> None:
    script = Script(LOOP)
    script.build("trunk", "head")
    script.train(5, "trunk")
    script.train(1, "trunk", "head")
    script.close()

    assert script.findings() == []


def test_a_frozen_layer_in_the_optimizer_does_not_starve() -> None:
    script = Script(LOOP)
    script.open("import", account="frozen", trainable=False)
    script.build("head", "frozen")
    script.train(3, "head")
    script.close()

    assert script.findings() == []


def test_weights_that_follow_others_by_hand_do_not_starve() -> None:
    script = Script(LOOP)
    script.build("online", "target")
    for _ in range(3):
        script.train(1, "online")
        script.move("lerp_", accounts=("target",))
    script.close()

    assert script.findings() == []


def test_before_anything_was_ever_spent_the_rule_keeps_silent() -> None:
    script = over_model(Script(LOOP))
    script.close()

    assert script.findings() == []
