import pytest

from gradkeeper.rules.uneven_window import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for epoch in range(3):
    for x in loader:
        loss.backward()
        p.grad /= rest
        optimizer.step()
        optimizer.zero_grad()
"""


def epoch(script: Script, *windows: int, rest: int = 0, over: int = 3) -> None:
    """One pass over the loader: windows of these sizes, and a rest that no step follows."""
    script.epoch_begin("for epoch", source="loader")
    for size in windows:
        script.window(size, source="loader", **mean(over=over))
    for _ in range(rest):
        script.micro_batch(source="loader", **mean(over=over))
    script.epoch_end("for epoch", source="loader")


def test_a_short_tail_divided_by_the_full_number_is_reported() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(3):
        epoch(script, 3, 3, 1)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK202:12"]


def test_epochs_that_the_window_divides_are_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(3):
        epoch(script, 3, 3)
    script.close()

    assert script.findings() == []


def test_the_finding_names_both_sizes() -> None:
    script = over_model(Script(LOOP))
    epoch(script, 3, 1)

    (finding,) = script.findings()

    assert finding.message == "step() applies fewer batches than their losses are divided by"
    assert finding.detail == (
        "account `optimizer`: credited on 5 fewer times for this step than for the one before"
    )
    assert finding.remedy == "divide by the number of batches since the last step"
    assert reasons(finding) == [(5, "fills windows of different sizes")]


def test_the_rest_of_one_epoch_spent_in_the_next_ones_first_window_is_reported() -> None:
    script = over_model(Script(LOOP))
    epoch(script, 3, 3, rest=1)
    script.epoch_begin("for epoch", source="loader")
    script.window(3, source="loader", **mean(over=3))

    (finding,) = script.findings()

    assert (
        finding.message
        == "step() applies the last batches of one epoch together with the first of the next"
    )
    assert finding.site.line == 7


def test_the_rest_of_one_epoch_is_reported_also_where_the_weight_is_not_known() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.epoch_begin("for epoch", source="loader")
        script.window(3, source="loader")
        script.micro_batch(source="loader")
        script.epoch_end("for epoch", source="loader")

    assert script.lines_of(rule) == [7]


def test_a_first_window_of_one_by_counting_from_zero_is_reported() -> None:
    script = over_model(Script(LOOP))
    epoch(script, 1, 3, 3)

    (finding,) = script.findings()

    assert finding.message == (
        "step() applies the first batch alone, its loss divided as if there were N"
    )
    assert finding.detail == (
        "account `optimizer`: credited on 5 once for the first step, several times for the next"
    )
    assert finding.site.line == 7


def test_a_first_window_that_is_a_batch_short_is_told_of_the_step_before() -> None:
    script = over_model(Script(LOOP))
    epoch(script, 2, 3, 3)

    (finding,) = script.findings()

    assert finding.message == "step() has applied fewer batches than their losses are divided by"
    assert finding.remedy.startswith("step after every N batches")
    assert finding.detail == (
        "account `optimizer`: credited on 5 fewer times for the step before than for this one"
    )


def test_counting_from_zero_is_reported_in_a_loop_without_loader_too() -> None:
    script = over_model(Script(LOOP))
    script.window(1, **mean(over=4))
    script.window(4, **mean(over=4))

    assert script.lines_of(rule) == [7]


def test_a_short_tail_of_nested_loops_is_reported() -> None:
    script = over_model(Script(LOOP))
    for size in (4, 4, 2):
        script.batch("for epoch")
        for _ in range(size):
            script.micro_batch(**mean(over=4))
        script.spend()
        script.clear()

    assert script.lines_of(rule) == [7]


def test_windows_that_go_on_across_epochs_by_a_running_counter_are_silent() -> None:
    script = over_model(Script(LOOP))
    done = 0
    for _ in range(3):
        script.epoch_begin("for epoch", source="loader")
        for _ in range(7):
            script.micro_batch(source="loader", **mean(over=3))
            done += 1
            if done % 3 == 0:
                script.spend()
                script.clear()
        script.epoch_end("for epoch", source="loader")
    script.close()

    assert script.alarms() == []


def test_a_tail_divided_by_what_it_holds_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.epoch_begin("for epoch", source="loader")
        for size in (3, 3, 1):
            script.window(size, source="loader", **mean(over=size))
        script.epoch_end("for epoch", source="loader")
    script.close()

    assert script.alarms() == []


def test_a_tail_brought_to_its_weight_by_hand_is_silent() -> None:
    script = over_model(Script(LOOP))
    epoch(script, 3, 3, rest=1)
    script.adjust("p.grad /=", accounts=("model",))
    script.spend()
    script.clear()
    script.close()

    assert script.alarms() == []


@pytest.mark.parametrize("bad", [0, 7, 8])
def test_a_bad_batch_left_out_of_a_window_is_silent(bad: int) -> None:
    script = over_model(Script(LOOP))
    for i in range(18):
        script.fetch("loader")
        if i != bad:
            script.credit(**mean(over=3))
        if i % 3 == 2:
            script.spend()
            script.clear()
    script.close()

    assert script.alarms() == []


def test_a_round_of_the_loop_around_is_no_bad_batch() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fetch("the loop over epochs")
        epoch(script, 3, 1)
    script.close()

    assert script.alarms() == ["GK202:7"]


def test_a_bad_batch_that_also_jumps_over_the_step_makes_a_window_too_long() -> None:
    script = over_model(Script(LOOP))
    script.window(3, source="loader", **mean(over=3))
    for _ in range(2):
        script.micro_batch(source="loader", **mean(over=3))
    script.fetch("loader")
    for _ in range(2):
        script.window(3, source="loader", **mean(over=3))
    script.close()

    (finding,) = script.findings()
    assert finding.message == "step() applies more batches than their losses are divided by"


def test_a_loss_halved_for_its_own_sake_makes_no_window_of_two() -> None:
    script = over_model(Script(LOOP))
    for _ in range(6):
        script.window(1, **mean(over=2))
    script.close()

    assert script.alarms() == []


def test_a_window_that_grows_from_epoch_to_epoch_with_its_divisor_is_silent() -> None:
    script = over_model(Script(LOOP))
    epoch(script, 2, 2, 2, over=2)
    epoch(script, 4, 4, over=4)
    script.close()

    assert script.alarms() == []


def test_windows_of_two_are_judged_like_larger_ones() -> None:
    tail = over_model(Script(LOOP))
    epoch(tail, 2, 2, 1, over=2)

    carried = over_model(Script(LOOP))
    epoch(carried, 2, rest=1, over=2)
    epoch(carried, 2, over=2)

    assert tail.lines_of(rule) == [7]
    assert carried.lines_of(rule) == [7]


def hooked(over: int) -> Script:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.fetch()
        script.backward("loss.backward()", accounts=("model",), **mean(over=over))
        script.step("optimizer.step()", optimizer="optimizer", hooked=True)
        script.zero("optimizer.zero_grad()", accounts=("model",))
    return script


def test_each_batch_spent_by_a_hook_and_divided_all_the_same_is_reported() -> None:
    finding = hooked(4).findings()[0]

    assert (finding.rule, finding.site.line) == ("GK202", 7)
    assert finding.message == (
        "step() in a backward hook applies each batch alone, its loss divided as if there were N"
    )
    assert finding.detail == "account `optimizer`: credited on 5 once for each step"
    assert finding.remedy == "leave out the division, or step after N batches and not in the hook"
    assert reasons(finding) == [(5, "divides its loss as for a window of several")]


@pytest.mark.parametrize("over", [1, 2])
def test_a_hook_that_spends_a_whole_or_halved_loss_is_silent(over: int) -> None:
    assert hooked(over).findings() == []
