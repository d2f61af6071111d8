from gradkeeper.rules.unnormalised_window import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    loss.backward()
    auxiliary.backward()
    p.grad /= 4
    optimizer.step()
    optimizer.zero_grad()
"""


def test_four_mean_losses_with_full_weight_are_reported_at_the_step() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(2):
        script.window(4, **mean())
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK201:9"]


def test_four_mean_losses_divided_by_four_are_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(2):
        script.window(4, **mean(over=4))
    script.close()

    assert script.findings() == []


def test_the_finding_names_the_line_and_the_divisor() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.window(3, **mean())

    (finding,) = script.findings()

    assert (
        finding.message
        == "step() applies the mean losses of line 4 added up, not divided by the number of batches"
    )
    assert finding.detail == (
        "account `optimizer`: credited on 4 by several batches, each loss with weight 1, spent on 7"
    )
    assert finding.remedy == "(loss / N).backward(), with N batches for each step"
    assert reasons(finding) == [(4, "each backward adds one batch's mean")]


def test_a_loss_that_is_taken_for_a_mean_counts_as_one() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.window(4, multiplier=1.0, reduction="assumed mean")

    assert script.alarms() == ["GK201:7"]


def test_a_loss_of_which_nothing_is_known_may_be_a_sum() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.window(4, multiplier=1.0)

    assert script.alarms() == []


def test_a_window_beside_an_auxiliary_loss_is_still_counted() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        for _ in range(4):
            script.micro_batch(**mean())
            script.backward("auxiliary.backward()", accounts=("model",), **mean())
        script.spend()
        script.clear()

    assert script.lines_of(rule) == [7]


def test_a_first_window_of_two_may_be_a_step_skipped_by_hand() -> None:
    script = over_model(Script(LOOP))
    script.window(2, **mean())
    for _ in range(4):
        script.window(1, **mean())
    script.close()

    assert script.alarms() == []


def test_losses_of_several_tasks_of_one_batch_are_a_sum_by_design() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.micro_batch(**mean())
        script.backward("auxiliary.backward()", accounts=("model",), **mean())
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_losses_of_the_time_steps_of_one_batch_are_a_sum_by_design() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fetch()
        for _ in range(5):
            script.credit(**mean())
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_tasks_from_several_sources_are_a_sum_by_design() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.micro_batch(source="pictures", **mean())
        script.micro_batch(source="words", **mean())
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_sums_are_no_means() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.window(4, multiplier=1.0, reduction="sum")
    script.close()

    assert script.alarms() == []


def test_a_gradient_divided_by_hand_before_the_step_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        for _ in range(4):
            script.micro_batch(**mean())
        script.adjust("p.grad /=", accounts=("model",))
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_losses_of_unknown_weight_are_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.window(4)
    script.close()

    assert script.alarms() == []


def test_losses_with_weights_of_their_own_are_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        for weight in (0.5, 0.3, 0.2):
            script.micro_batch(multiplier=weight, reduction="mean")
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_closures_that_go_over_one_batch_again_make_no_window() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fetch()
        for _ in range(4):
            script.clear(within="optimizer")
            script.credit(within="optimizer", **mean())
        script.spend()
    script.close()

    assert script.alarms() == []


def test_windows_of_two_are_judged_like_larger_ones() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.window(2, **mean())

    assert script.lines_of(rule) == [7]


def test_one_sum_among_the_means_makes_the_window_unknown() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.micro_batch(**mean())
        script.window(1, multiplier=1.0, reduction="sum")
    script.close()

    assert script.alarms() == []


def test_the_first_window_of_a_new_loss_may_be_a_step_skipped_by_hand() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.window(4, **mean(over=4))
    for _ in range(2):
        script.fetch()
        script.backward("auxiliary.backward()", accounts=("model",), **mean())
    script.spend()
    script.clear()
    script.close()

    assert script.alarms() == []
