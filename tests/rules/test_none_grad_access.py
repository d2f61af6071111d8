from gradkeeper.rules.none_grad_access import rule
from tests.script import Script, block, marked, mean, over_model

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    loss.backward()
    total += p.grad.norm()
    p.grad /= 4
    w -= 0.1 * w.grad
    p.grad.zero_()
    optimizer.step()
    optimizer.zero_grad()
"""

MODEL = ("model",)


def zero_in_place(script: Script, *, guarded: bool = False) -> None:
    script.zero("p.grad.zero_()", accounts=MODEL, to_none=False, guarded=guarded)


def divide(script: Script, *, guarded: bool = False) -> None:
    script.adjust("p.grad /=", accounts=MODEL, guarded=guarded)


def test_zeroing_in_place_before_the_first_backward_is_reported() -> None:
    script = block(rule, "bad")
    for _ in range(2):
        script.fetch()
        script.zero("w.grad.zero_()", accounts=("w",), to_none=False, guarded=False)
        script.credit("w", **mean())
        script.move("w -=", accounts=("w",), gradient=True)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK601:5"]


def test_zeroing_in_place_behind_a_question_is_silent() -> None:
    script = block(rule, "good")
    for _ in range(2):
        script.fetch()
        script.zero("w.grad.zero_()", accounts=("w",), to_none=False, guarded=True)
        script.credit("w", **mean())
        script.move("w -=", accounts=("w",), gradient=True)
    script.close()

    assert script.findings() == []


def test_the_finding_names_the_account_and_the_question_to_ask() -> None:
    script = over_model(Script(LOOP))
    zero_in_place(script)

    (finding,) = script.findings()

    assert finding.message == "uses .grad of `model` in place where it may be None"
    assert finding.detail == ("account `model`: not credited since it was made or set to None")
    assert finding.remedy == "ask first: if p.grad is not None:"
    assert finding.because == ()


def test_changing_a_gradient_that_was_set_to_none_is_reported() -> None:
    script = over_model(Script(LOOP))
    script.window(1)
    divide(script)

    assert script.alarms() == ["GK601:6"]


def test_changing_a_gradient_after_backward_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.micro_batch()
        divide(script)
        script.spend()
        zero_in_place(script)
    script.close()

    assert script.findings() == []


def test_zeros_in_place_one_after_another_are_silent() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    script.spend()
    zero_in_place(script)
    zero_in_place(script)

    assert script.findings() == []


def test_after_a_read_that_would_already_have_failed_the_rule_keeps_silent() -> None:
    script = over_model(Script(LOOP))
    script.read("p.grad.norm()", accounts=MODEL)
    zero_in_place(script)

    assert script.findings() == []


def test_after_an_update_that_would_already_have_failed_the_rule_keeps_silent() -> None:
    script = over_model(Script(LOOP))
    script.move("w -=", accounts=MODEL, gradient=True)
    zero_in_place(script)

    assert script.findings() == []


def test_only_the_first_use_that_fails_is_reported() -> None:
    script = over_model(Script(LOOP))
    divide(script)
    zero_in_place(script)

    assert script.alarms() == ["GK601:6"]


def test_a_use_behind_a_question_proves_nothing_for_the_next() -> None:
    script = over_model(Script(LOOP))
    divide(script, guarded=True)
    zero_in_place(script)

    assert script.alarms() == ["GK601:8"]
