import random

import pytest

from gradkeeper.rules.discarded_gradient import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    loss.backward()
    optimizer.zero_grad()
    second.backward()
    optimizer.step()
    w -= 0.1 * w.grad
    fisher += p.grad ** 2
    p.grad = projected
critic = SGD(critic)
critic.step()
"""


def test_zeroing_every_micro_batch_of_a_window_is_reported_at_the_zero() -> None:
    script = over_model(block(rule, "bad"))
    for i in range(8):
        script.fresh_batch(**mean(over=4))
        if (i + 1) % 4 == 0:
            script.spend()
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK102:6"]


def test_zeroing_once_per_window_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(2):
        script.window(4, **mean(over=4))
    script.close()

    assert script.findings() == []


def test_zeroing_between_backward_and_step_is_reported_and_told_apart() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.micro_batch()
        script.clear()
        script.spend()
    script.close()

    (finding,) = script.findings()

    assert finding.rule == rule.code
    assert finding.site.line == 5
    assert finding.message == "clears the gradient of line 4 before any step() has applied it"
    assert finding.detail == (
        "account `optimizer`: credited on 4, zeroed on 5, before the step on 7"
    )
    assert finding.remedy == "zero_grad() right after step(), not between backward() and step()"
    assert reasons(finding) == [
        (4, "this backward's gradient is thrown away"),
        (7, "before this step can apply it"),
    ]


def test_the_remedy_for_a_window_is_to_zero_after_its_step() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.micro_batch()
        script.clear()
        script.micro_batch()
        script.spend()
        script.clear()
    script.close()

    (finding,) = script.findings()

    assert finding.remedy == "zero_grad() once for each step(), right after it"


def test_a_single_step_after_many_zeroed_batches_is_reported_at_the_close() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.fresh_batch()
    script.spend()
    script.close()

    (finding,) = script.findings()

    assert finding.rule == rule.code
    assert finding.site.line == 5
    assert finding.remedy == "zero_grad() once for each step(), right after it"
    assert reasons(finding) == [
        (4, "this backward's gradient is thrown away"),
        (7, "before this step can apply it"),
    ]


def test_a_single_backward_zeroed_before_the_only_step_is_no_loop() -> None:
    script = over_model(Script(LOOP))
    script.credit()
    script.clear()
    script.spend()
    script.close()

    assert script.lines_of(rule) == []


def probe(script: Script, batches: int) -> None:
    """Does the largest batch fit? Backward and zero, at a line of its own."""
    for _ in range(batches):
        script.backward("import torch", accounts=("model",))
        script.clear()


def test_a_trial_before_training_begins_is_no_loss() -> None:
    script = over_model(Script(LOOP))
    probe(script, 4)
    script.train(3)
    script.close()

    assert script.alarms() == []


def test_a_trial_before_the_optimizer_is_built_is_no_loss() -> None:
    script = Script(LOOP)
    for _ in range(4):
        script.backward("import torch", accounts=("model",))
        script.zero("optimizer.zero_grad()", accounts=("model",))
    script.build("model")
    script.train(3)
    script.close()

    assert script.alarms() == []


def test_a_trial_that_runs_out_of_memory_is_no_loss_either() -> None:
    script = over_model(Script(LOOP))
    probe(script, 3)
    script.backward("import torch", accounts=("model",))
    script.fault("import torch", accounts=("model",), torn=True)
    script.clear()
    script.train(3)
    script.close()

    assert script.alarms() == []


def test_a_trial_without_training_or_in_the_middle_of_it_is_reported() -> None:
    alone, amid = over_model(Script(LOOP)), over_model(Script(LOOP))
    probe(alone, 4)
    alone.spend()
    alone.close()
    amid.train(1)
    probe(amid, 4)
    amid.train(3)
    amid.close()

    assert alone.lines_of(rule) == amid.lines_of(rule) == [5]


def test_a_window_is_reported_while_it_runs_once_its_losses_are_a_habit() -> None:
    script = over_model(Script(LOOP))
    for _ in range(20):
        for _ in range(3):
            script.fresh_batch()
        script.spend()

    (finding,) = script.findings()

    assert (finding.count, finding.first_step, finding.last_step) == (13, 8, 20)


def test_a_short_last_window_of_each_epoch_does_not_hide_the_habit() -> None:
    script = over_model(Script(LOOP))
    for _ in range(6):
        for i in range(8):
            script.fresh_batch()
            if (i + 1) % 3 == 0:
                script.spend()
    script.close()

    assert script.alarms() == ["GK102:5"]


@pytest.mark.parametrize("often", [0.2, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("seed", range(25))
def test_batches_skipped_for_what_they_hold_are_no_loss_however_many(
    often: float, seed: int
) -> None:
    """`if norm < limit: optimizer.step()`: early in training most norms may be too large."""
    chance = random.Random(seed)
    script = over_model(Script(LOOP))
    for i in range(200):
        script.micro_batch()
        if chance.random() > (often if i < 40 else often / 10):
            script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_a_batch_skipped_now_and_then_is_no_loss() -> None:
    script = over_model(Script(LOOP))
    for i in range(12):
        script.fresh_batch()
        if i % 3:
            script.spend()
    script.close()

    assert script.alarms() == []


def test_two_bad_batches_in_a_row_amid_good_ones_are_no_habit() -> None:
    script = over_model(Script(LOOP))
    script.train(6)
    for _ in range(2):
        script.fresh_batch()
    script.train(1)
    script.close()

    assert script.alarms() == []


def test_a_batch_dropped_because_its_norm_is_not_finite_is_no_loss() -> None:
    script = over_model(Script(LOOP))
    for i in range(9):
        script.micro_batch()
        bad = i % 3 > 0
        if not bad:
            script.spend()
        script.clear(waived=bad)
    script.close()

    assert script.alarms() == []


def test_steps_that_the_scaler_refuses_are_no_loss() -> None:
    script = over_model(Script(LOOP))
    script.train_scaled(4, taken=False)
    script.train_scaled(2)
    script.close()

    assert script.alarms() == []


def test_a_torn_backward_that_is_zeroed_is_no_loss() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.micro_batch()
        script.fault("loss.backward()", accounts=("model",), torn=True)
        script.clear()
        script.train(1)
        script.clear()
    script.close()

    assert script.alarms() == []


def test_gradients_that_moved_the_weights_by_hand_are_no_loss() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.micro_batch()
        script.move("w -=", accounts=("model",), gradient=True)
        script.clear()
    script.spend()
    script.close()

    assert script.lines_of(rule) == []


def test_the_first_half_of_sharpness_aware_steps_is_no_loss() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.micro_batch()
        script.move("w -=", accounts=("model",))
        script.clear()
        script.backward("second.backward()", accounts=("model",))
        script.move("w -=", accounts=("model",))
        script.spend()
        script.zero("optimizer.step()", accounts=("model",))
    script.close()

    assert script.alarms() == []


def test_gradients_of_inputs_are_no_loss_for_the_weights() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.micro_batch(leaf=True)
        script.clear()
        script.backward("second.backward()", accounts=("model",))
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_an_attack_of_several_rounds_before_each_step_is_no_loss() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fetch()
        for _ in range(4):
            script.credit(leaf=True)
            script.clear()
        script.credit()
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_gradients_read_for_a_fisher_matrix_are_no_loss() -> None:
    script = over_model(Script(LOOP))
    for _ in range(6):
        script.fresh_batch()
        script.read("fisher", accounts=("model",))
    script.clear()
    for _ in range(3):
        script.fetch()
        script.backward("second.backward()", accounts=("model",))
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_gradient_surgery_that_reads_zeroes_and_assigns_is_no_loss() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.fetch()
        for line in ("loss.backward()", "second.backward()"):
            script.clear()
            script.backward(line, accounts=("model",))
            script.read("p.grad =", accounts=("model",))
        script.clear()
        script.assign("p.grad =", accounts=("model",))
        script.spend()
    script.close()

    assert script.alarms() == []


def test_gradients_put_back_by_hand_after_a_zero_were_not_thrown_away() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.micro_batch()
        script.clear()
        script.assign("p.grad =", accounts=("model",))
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_closures_may_zero_and_go_back_as_often_as_the_step_asks() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fetch()
        for _ in range(5):
            script.clear(within="optimizer")
            script.credit(within="optimizer")
        script.spend()
    script.close()

    assert script.alarms() == []


def test_the_share_of_a_loss_that_another_optimizer_spent_may_be_thrown_away() -> None:
    script = Script(LOOP)
    script.build("actor")
    script.build("critic", optimizer="critic")
    for _ in range(4):
        script.fetch()
        script.zero("optimizer.zero_grad()", accounts=("actor", "critic"))
        script.credit("critic")
        script.spend("critic")
        script.zero("optimizer.zero_grad()", accounts=("actor", "critic"))
        script.backward("second.backward()", accounts=("actor", "critic"))
        script.spend()
    script.close()

    assert script.alarms() == []
