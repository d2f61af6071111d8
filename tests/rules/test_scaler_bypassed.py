from gradkeeper.rules.scaler_bypassed import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    loss.backward()
    p.grad /= scale
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    optimizer.step()
"""


def scaled_batch(script: Script) -> None:
    script.fetch()
    script.clear()
    script.scale("scaler.scale(loss)", scaler="scaler")
    script.backward(
        "backward()", accounts=("model",), scaler="scaler", autocast="float16", **mean()
    )


def plain_batch(script: Script) -> None:
    script.fresh_batch(**mean())


def scaler_steps(script: Script, *, taken: bool = True) -> None:
    script.step("scaler.step(optimizer)", optimizer="optimizer", scaler="scaler", taken=taken)
    script.update("scaler.update()", scaler="scaler")


def test_a_direct_step_on_scaled_gradients_is_reported() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(6):
        scaled_batch(script)
        script.spend()
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK302:11"]


def test_a_step_through_the_scaler_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(6):
        scaled_batch(script)
        scaler_steps(script)
    script.close()

    assert script.findings() == []


def test_the_finding_names_the_scaler_and_the_two_calls_to_write() -> None:
    script = over_model(Script(LOOP))
    scaled_batch(script)
    script.spend()

    (finding,) = script.findings()

    assert finding.message == (
        "step() applies gradients that are still multiplied by the scale of `scaler`"
    )
    assert finding.detail == (
        "account `optimizer`: credited on 5 with a scaled loss, spent on 11 without unscaling"
    )
    assert finding.remedy == "scaler.step(optimizer), then scaler.update()"
    assert reasons(finding) == [(5, "this loss was multiplied by the scale")]


def test_a_scaler_that_steps_on_a_plain_loss_is_reported() -> None:
    script = over_model(Script(LOOP))
    plain_batch(script)
    scaler_steps(script)

    (finding,) = script.findings()

    assert finding.site.line == 9
    assert finding.message == (
        "scaler.step() divides the gradient of line 6 by a scale that it was never multiplied by"
    )
    assert finding.detail == (
        "account `optimizer`: credited on 6 with a plain loss, spent on 9 through `scaler`"
    )
    assert finding.remedy == "scaler.scale(loss).backward()"
    assert reasons(finding) == [(6, "this loss was not scaled")]


def test_one_plain_loss_beside_a_scaled_one_is_reported() -> None:
    script = over_model(Script(LOOP))
    scaled_batch(script)
    script.credit()
    scaler_steps(script)

    assert script.alarms() == ["GK302:9"]


def test_a_direct_step_after_unscaling_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        scaled_batch(script)
        script.unscale("scaler.unscale_", scaler="scaler", optimizer="optimizer")
        script.spend()
        script.update("scaler.update()", scaler="scaler")
    script.close()

    assert script.alarms() == []


def test_gradients_divided_by_the_scale_by_hand_are_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        scaled_batch(script)
        script.adjust("p.grad /=", accounts=("model",))
        script.spend()
    script.close()

    assert script.alarms() == []


def test_a_first_step_that_the_scaler_refused_is_silent() -> None:
    script = over_model(Script(LOOP))
    for i in range(3):
        scaled_batch(script)
        scaler_steps(script, taken=i > 0)
    script.close()

    assert script.alarms() == []


def test_plain_epochs_after_scaled_ones_are_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        scaled_batch(script)
        scaler_steps(script)
    for _ in range(2):
        plain_batch(script)
        script.spend()
    script.close()

    assert script.alarms() == []
