from gradkeeper.rules.swallowed_fault import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    optimizer.zero_grad()
    try:
        loss.backward()
    except RuntimeError:
        log("skipped")
    optimizer.step()
"""


def fault(script: Script, *, torn: bool = False) -> None:
    script.fault("except RuntimeError", accounts=("model",), torn=torn)


def test_what_an_interrupted_backward_left_is_reported_at_the_step_that_spends_it() -> None:
    script = over_model(block(rule, "bad"))
    for i in range(6):
        script.micro_batch(**mean())
        if i == 2:
            fault(script, torn=True)
            continue
        script.spend()
        script.clear()
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK605:21"]


def test_a_zero_where_the_exception_is_caught_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for i in range(6):
        script.micro_batch(**mean())
        if i == 2:
            fault(script, torn=True)
            script.clear()
            continue
        script.spend()
        script.zero("optimizer.zero_grad()", nth=2, accounts=("model",))
    script.close()

    assert script.findings() == []


def test_the_finding_names_the_backward_and_the_exception() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    fault(script, torn=True)
    script.micro_batch()
    script.spend()

    (finding,) = script.findings()

    assert finding.message == "step() applies what an interrupted backward() of line 6 left behind"
    assert finding.detail == (
        "account `optimizer`: credited on 6, interrupted by an exception on 7, not zeroed since"
    )
    assert finding.remedy == "optimizer.zero_grad() where the exception is caught"
    assert reasons(finding) == [
        (6, "was interrupted"),
        (7, "the exception"),
    ]


def test_a_torn_backward_spent_in_its_own_batch_is_reported() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    fault(script, torn=True)
    script.spend()

    assert script.alarms() == ["GK605:9"]


def test_a_whole_backward_of_a_batch_that_was_given_up_is_reported() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    fault(script)
    script.micro_batch()
    script.spend()

    assert script.alarms() == ["GK605:9"]


def test_a_torn_backward_of_a_window_is_reported_though_the_others_are_whole() -> None:
    script = over_model(Script(LOOP))
    for i in range(4):
        script.micro_batch(**mean(over=4))
        if i == 1:
            fault(script, torn=True)
    script.spend()

    assert script.alarms() == ["GK605:9"]


def test_an_exception_in_a_forward_leaves_the_window_whole() -> None:
    script = over_model(Script(LOOP))
    for i in range(8):
        script.fetch()
        if i == 2:
            fault(script)
            continue
        script.credit(**mean(over=4))
        if i % 4 == 3:
            script.spend()
            script.clear()
    script.close()

    assert script.alarms() == []


def test_an_exception_after_backward_that_does_not_stop_the_step_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fresh_batch()
        fault(script)
        script.spend()
    script.close()

    assert script.alarms() == []


def test_a_zero_at_the_top_of_the_next_batch_is_silent() -> None:
    script = over_model(Script(LOOP))
    for i in range(6):
        script.fresh_batch()
        if i % 3 == 1:
            fault(script, torn=True)
            continue
        script.spend()
    script.close()

    assert script.alarms() == []
