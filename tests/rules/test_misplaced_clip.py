import math

from gradkeeper.rules.misplaced_clip import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
other = SGD(head)
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    other.step()
"""

REMEDY = "clip once, between the last backward() and step()"


def clip(script: Script, *accounts: str, bound: float | None = 1.0) -> None:
    script.clip("clip_grad_norm_", accounts=accounts or ("model",), bound=bound)


def test_clipping_after_the_step_is_reported_at_the_clip() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(6):
        script.train(1, **mean())
        clip(script)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK304:10"]


def test_clipping_between_backward_and_step_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(6):
        script.fresh_batch(**mean())
        clip(script)
        script.spend()
    script.close()

    assert script.findings() == []


def test_the_finding_after_the_step_names_the_step() -> None:
    script = over_model(Script(LOOP))
    script.train(1)
    clip(script)

    (finding,) = script.findings()

    assert finding.message == "clips gradients that line 8 has already applied"
    assert finding.detail == "account `model`: credited on 6, spent on 8, clipped on 7"
    assert finding.remedy == REMEDY
    assert reasons(finding) == [(8, "the step comes before the clip")]


def test_a_clip_that_raised_for_want_of_gradients_is_reported_at_once() -> None:
    script = over_model(Script(LOOP))
    script.clip("clip_grad_norm_", accounts=("model",), refused=True)

    (finding,) = script.findings()

    assert finding.site.line == 7
    assert finding.message == "clips before backward(): there is no gradient yet, and torch refuses"
    assert finding.detail == "account `model`: clipped on 7, nothing credited"
    assert finding.remedy == REMEDY


def test_a_clip_that_raised_on_what_nobody_owns_is_silent() -> None:
    script = Script(LOOP)
    script.clip("clip_grad_norm_", accounts=("model",), refused=True)

    assert script.findings() == []


def test_clipping_before_backward_is_reported_at_the_clip() -> None:
    script = over_model(Script(LOOP))
    script.fetch()
    script.clear()
    clip(script)
    script.credit()
    script.spend()

    (finding,) = script.findings()

    assert finding.site.line == 7
    assert finding.message == "clips before backward() on line 6: there is no gradient yet"
    assert finding.detail == ("account `model`: clipped on 7, credited on 6 after that, spent on 8")
    assert finding.remedy == REMEDY
    assert reasons(finding) == [
        (6, "the last backward of the window"),
        (8, "applies it"),
    ]


def test_clipping_on_every_micro_batch_of_a_window_is_reported_at_the_clip() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.micro_batch(**mean(over=4))
        clip(script)
    script.spend()

    (finding,) = script.findings()

    assert finding.site.line == 7
    assert finding.message == (
        "clips after every backward() of line 6: each time, what was added before shrinks"
    )
    assert finding.detail == ("account `model`: clipped on 7, credited on 6 after that, spent on 8")


def test_measuring_the_norm_with_an_infinite_bound_is_silent_anywhere() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        clip(script, bound=math.inf)
        for _ in range(4):
            script.micro_batch(**mean(over=4))
            clip(script, bound=math.inf)
        script.spend()
        clip(script, bound=math.inf)
        script.clear()
    script.close()

    assert script.alarms() == []


def test_clipping_once_at_the_end_of_a_window_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        for _ in range(4):
            script.micro_batch(**mean(over=4))
        clip(script)
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_clipping_by_norm_and_then_by_value_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fresh_batch()
        clip(script)
        clip(script, bound=None)
        script.spend()
    script.close()

    assert script.alarms() == []


def test_clipping_the_first_of_two_losses_of_one_batch_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fresh_batch()
        clip(script)
        script.credit()
        script.spend()
    script.close()

    assert script.alarms() == []


def test_one_clip_over_all_networks_before_each_of_two_steps_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.build("head", optimizer="other")
    for _ in range(3):
        script.fetch()
        script.zero("zero_grad", accounts=("model", "head"))
        script.credit("model", "head")
        clip(script, "model", "head")
        script.spend()
        clip(script, "model", "head")
        script.spend("other")
    script.close()

    assert script.alarms() == []


def test_a_head_that_this_batch_left_alone_may_be_clipped() -> None:
    script = Script(LOOP)
    script.build("trunk", "head")
    for i in range(4):
        script.fresh_batch("trunk", *(["head"] if i % 2 else []))
        clip(script, "trunk")
        clip(script, "head")
        script.spend()
    script.close()

    assert script.alarms() == []


def test_a_clip_of_what_a_refused_step_left_alone_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.fresh_batch(scaler="scaler")
        script.unscale("clip_grad_norm_", scaler="scaler", optimizer="optimizer")
        clip(script)
        script.spend(scaler="scaler", taken=False)
        script.update("optimizer.step()", scaler="scaler")
    script.close()

    assert script.alarms() == []


def test_clipping_on_both_micro_batches_of_a_window_of_two_is_reported() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.micro_batch(**mean(over=2))
        clip(script)
    script.spend()

    assert script.alarms() == ["GK304:7"]


def test_a_vacant_clip_before_a_proper_one_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.clear()
        clip(script)
        script.micro_batch()
        clip(script)
        script.spend()
    script.close()

    assert script.alarms() == []
