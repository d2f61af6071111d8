import pytest

from gradkeeper.rules.nonfinite_spent import rule
from tests.script import Script, block, marked, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def clip(script: Script) -> None:
    script.clip("clip_grad_norm_", accounts=("model",), bound=1.0)


def test_a_gradient_that_is_nan_is_reported_at_the_step_that_applies_it() -> None:
    script = over_model(block(rule, "bad"))
    for i in range(4):
        script.fresh_batch()
        clip(script)
        script.spend(finite=i < 2)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK305:10"]


def test_a_step_left_out_when_the_norm_is_not_finite_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for i in range(4):
        script.fetch()
        script.clear(waived=i == 3)
        script.credit()
        clip(script)
        if i != 2:
            script.spend(finite=True)
    script.close()

    assert script.findings() == []


def test_the_finding_names_the_backward_that_made_it() -> None:
    script = over_model(Script(LOOP))
    script.fetch()
    script.credit()
    script.spend(finite=False)

    (finding,) = script.findings()

    assert finding.message == "step() applies a gradient of line 5 that is NaN or inf"
    assert finding.detail == (
        "account `optimizer`: credited on 5, not finite, spent on 6 all the same"
    )
    assert finding.remedy == "step only if the norm is finite; zero_grad() either way"
    assert reasons(finding) == [(5, "this backward made it")]


@pytest.mark.parametrize("finite", [True, None])
def test_a_gradient_that_is_finite_or_was_not_looked_at_is_silent(finite: bool | None) -> None:
    script = over_model(Script(LOOP))
    script.fetch()
    script.credit()
    script.spend(finite=finite)
    script.close()

    assert script.findings() == []


def test_a_step_that_the_scaler_refused_applies_nothing() -> None:
    script = over_model(Script(LOOP))
    for i in range(3):
        script.fresh_batch(scaler="scaler")
        script.spend(scaler="scaler", taken=i > 0, finite=i > 0)
        script.update("optimizer.step()", scaler="scaler")
    script.close()

    assert script.findings() == []
