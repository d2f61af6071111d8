from gradkeeper.rules.dropped_tail import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for epoch in range(3):
    optimizer.zero_grad()
    for x in loader:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
other = SGD(critic)
other.step()
"""


def epoch(script: Script, *, windows: int, rest: int) -> None:
    """Zeroes at the top of the epoch, steps once for four batches, and leaves a rest."""
    script.clear()
    script.epoch_begin("for epoch", source="loader")
    for _ in range(windows):
        script.window(4, source="loader", **mean(over=4))
    for _ in range(rest):
        script.micro_batch(source="loader", **mean(over=4))
    script.epoch_end("for epoch", source="loader")


def test_two_batches_left_over_at_the_end_are_reported_at_their_backward() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(2):
        script.window(4, **mean(over=4))
    for _ in range(2):
        script.micro_batch(**mean(over=4))
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK203:7"]


def test_a_last_window_that_is_stepped_and_divided_by_what_it_holds_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for size in (4, 4, 2):
        script.batch("for window")
        script.clear()
        for _ in range(size):
            script.micro_batch(**mean(over=size))
        script.spend()
    script.close()

    assert script.findings() == []


def test_the_finding_at_the_end_names_the_last_step() -> None:
    script = over_model(Script(LOOP))
    script.window(4, **mean(over=4))
    script.micro_batch(**mean(over=4))
    script.close()

    (finding,) = script.findings()

    assert (
        finding.message
        == "the gradients of the last batches are never applied: no step() of `optimizer` follows"
    )
    assert finding.detail == (
        "account `optimizer`: credited on 6, the last window not full, never spent"
    )
    assert finding.remedy == (
        "after the loop, step() once more on what is left, divided by the batches it holds"
    )
    assert reasons(finding) == [(7, "steps once for several batches")]


def test_the_rest_of_an_epoch_that_the_next_one_zeroes_is_reported_at_its_backward() -> None:
    script = over_model(Script(LOOP))
    epoch(script, windows=2, rest=2)
    script.clear()

    (finding,) = script.findings()

    assert finding.site.line == 6
    assert (
        finding.message
        == "the gradients of the last batches are never applied: no step() of `optimizer` follows"
    )
    assert reasons(finding) == [(4, "what is left of the epoch is zeroed here")]


def test_tails_of_every_epoch_are_no_habit_of_discarding() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        epoch(script, windows=1, rest=3)
    script.clear()
    script.close()

    assert script.alarms() == ["GK203:6"]


def test_a_tail_zeroed_after_the_next_epoch_began_is_reported() -> None:
    script = over_model(Script(LOOP))
    epoch(script, windows=2, rest=1)
    script.epoch_begin("for epoch", source="loader")
    script.clear()

    assert script.lines_of(rule) == [6]


def test_a_whole_window_that_is_zeroed_is_no_tail() -> None:
    script = over_model(Script(LOOP))
    epoch(script, windows=2, rest=4)
    script.clear()

    assert script.lines_of(rule) == []


def test_epochs_that_the_window_divides_are_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        epoch(script, windows=2, rest=0)
    script.close()

    assert script.alarms() == []


def test_a_rest_that_the_next_epoch_goes_on_with_is_not_dropped() -> None:
    script = over_model(Script(LOOP))
    for i in range(12):
        if i % 3 == 0:
            script.epoch_begin("for epoch", source="loader")
        script.micro_batch(source="loader", **mean(over=2))
        if i % 2:
            script.spend()
            script.clear()
        if i % 3 == 2:
            script.epoch_end("for epoch", source="loader")
    script.close()

    assert script.alarms() == []


def test_a_last_backward_after_steps_on_every_batch_is_no_tail() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.window(1)
    script.micro_batch()
    script.close()

    assert script.alarms() == []


def test_a_rest_given_up_because_it_is_not_finite_is_not_dropped() -> None:
    script = over_model(Script(LOOP))
    script.window(4)
    script.micro_batch()
    script.clear(waived=True)
    script.close()

    assert script.alarms() == []


def test_a_rest_that_was_read_for_itself_is_not_dropped() -> None:
    script = over_model(Script(LOOP))
    script.window(4)
    script.micro_batch()
    script.read("loss.backward()", accounts=("model",))
    script.close()

    assert script.alarms() == []


def test_what_another_optimizer_spent_is_no_tail_of_this_one() -> None:
    script = over_model(Script(LOOP))
    script.build("critic", optimizer="other")
    for i in range(9):
        script.micro_batch("model", "critic", **mean(over=4))
        script.spend("other")
        script.zero("other =", accounts=("critic",))
        if i % 4 == 3:
            script.spend()
            script.clear()
    script.close()

    assert script.alarms() == []
