from gradkeeper.rules.stale_gradient import rule
from tests.script import Script, block, marked

LOOP = """\
import torch
optimizer = SGD(model)
other = SGD(model)
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    other.step()
    w -= 0.1 * w.grad
    w.clamp_()
"""


def test_a_loop_that_never_zeroes_is_reported_at_its_step() -> None:
    script = block(rule, "bad")
    script.adopt("optimizer =", optimizer="optimizer", accounts=("model",))
    for _ in range(6):
        script.batch("for x")
        script.backward("loss.backward()", accounts=("model",))
        script.step("optimizer.step()", optimizer="optimizer")
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK101:8"]


def test_a_loop_that_zeroes_is_silent() -> None:
    script = block(rule, "good")
    script.adopt("optimizer =", optimizer="optimizer", accounts=("model",))
    for _ in range(6):
        script.batch("for x")
        script.zero("optimizer.zero_grad()", accounts=("model",))
        script.backward("loss.backward()", accounts=("model",))
        script.step("optimizer.step()", optimizer="optimizer")
    script.close()

    assert script.findings() == []


def test_the_finding_names_both_lines_the_account_and_the_way_out() -> None:
    script = Script(LOOP)
    script.adopt("optimizer =", optimizer="optimizer", accounts=("model",))
    for _ in range(2):
        script.backward("loss.backward()", accounts=("model",))
        script.step("optimizer.step()", optimizer="optimizer")

    (finding,) = script.findings()

    assert finding.message == "step() applies the gradient of line 6 a second time"
    assert finding.detail == "account `optimizer`: credited on 6, spent on 7, not zeroed since"
    assert finding.remedy == "optimizer.zero_grad() right after the step"
    assert [because.site.line for because in finding.because] == [6, 7]


def test_a_second_step_for_one_backward_is_reported() -> None:
    script = Script(LOOP)
    script.adopt("optimizer =", optimizer="optimizer", accounts=("model",))
    script.backward("loss.backward()", accounts=("model",))
    script.step("optimizer.step()", optimizer="optimizer")
    script.step("optimizer.step()", optimizer="optimizer")

    assert script.lines_of(rule) == [7]


def test_two_optimizers_may_each_spend_a_shared_trunk_once() -> None:
    script = Script(LOOP)
    script.adopt("optimizer =", optimizer="optimizer", accounts=("trunk", "head"))
    script.adopt("other =", optimizer="other", accounts=("trunk",))
    for _ in range(3):
        script.batch("for x")
        script.zero("zero_grad", accounts=("trunk", "head"))
        script.backward("loss.backward()", accounts=("trunk", "head"))
        script.step("optimizer.step()", optimizer="optimizer")
        script.step("other.step()", optimizer="other")
    script.close()

    assert script.alarms() == []


def test_an_update_by_hand_that_is_never_zeroed_is_reported() -> None:
    script = Script(LOOP)
    for _ in range(3):
        script.batch("for x")
        script.backward("loss.backward()", accounts=("w",))
        script.move("w -=", accounts=("w",), gradient=True)

    assert script.lines_of(rule) == [9]


def test_clamping_weights_by_hand_spends_nothing() -> None:
    script = Script(LOOP)
    script.adopt("optimizer =", optimizer="optimizer", accounts=("model",))
    for _ in range(3):
        script.batch("for x")
        script.zero("zero_grad", accounts=("model",))
        script.backward("loss.backward()", accounts=("model",))
        script.step("optimizer.step()", optimizer="optimizer")
        script.move("w.clamp_()", accounts=("model",))
        script.move("w.clamp_()", accounts=("model",))
    script.close()

    assert script.alarms() == []


def test_a_step_that_the_scaler_refused_spends_nothing() -> None:
    script = Script(LOOP)
    script.adopt("optimizer =", optimizer="optimizer", accounts=("model",))
    script.scale("loss.backward()", scaler="scaler")
    script.backward("loss.backward()", accounts=("model",), scaler="scaler")
    script.step("optimizer.step()", optimizer="optimizer", scaler="scaler", taken=False)
    script.update("optimizer.step()", scaler="scaler")
    script.step("optimizer.step()", optimizer="optimizer", scaler="scaler")

    assert script.lines_of(rule) == []
