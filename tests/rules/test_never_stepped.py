from gradkeeper.rules.never_stepped import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
other = SGD(model)
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    fisher += p.grad ** 2
    w -= 0.1 * w.grad
    other.step()
    optimizer.step()
"""

PAIR = """\
optimizer = SGD(encoder)
other = SGD(decoder)
for x in loader:
    optimizer.zero_grad()
    other.zero_grad()
    loss.backward()
    optimizer.step()
    critic_loss.backward()
    other.step()
"""


def test_a_loop_without_a_step_is_reported_at_its_backward() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(6):
        script.fresh_batch(**mean())
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK107:8"]


def test_a_loop_with_a_step_is_silent() -> None:
    script = over_model(block(rule, "good"))
    script.train(6, **mean())
    script.close()

    assert script.findings() == []


def test_the_finding_counts_what_was_never_spent_and_names_the_optimizer() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.fresh_batch()
    script.close()

    (finding,) = script.findings()

    assert finding.message == "backward() fills the gradients of `optimizer`, which never steps"
    assert finding.detail == "account `optimizer`: credited on 6 again and again, never spent"
    assert finding.remedy == "optimizer.step() after backward()"
    assert reasons(finding) == [(2, "`optimizer` was built here")]


def test_a_loop_that_neither_steps_nor_zeroes_is_reported() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.micro_batch()
    script.close()

    assert script.alarms() == ["GK107:6"]


def test_a_step_of_another_optimizer_over_other_parameters_does_not_count() -> None:
    script = over_model(Script(LOOP))
    script.build("bystander", optimizer="other")
    for _ in range(4):
        script.fresh_batch()
        script.spend("other")
    script.close()

    assert script.lines_of(rule) == [6]


def test_two_backward_calls_are_no_training_loop() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    script.micro_batch()
    script.close()

    assert script.findings() == []


def test_gradients_read_for_themselves_need_no_step() -> None:
    script = over_model(Script(LOOP))
    for _ in range(6):
        script.fresh_batch()
        script.read("fisher", accounts=("model",))
    script.close()

    assert script.findings() == []


def test_weights_moved_by_hand_need_no_step() -> None:
    script = over_model(Script(LOOP))
    for _ in range(6):
        script.micro_batch()
        script.move("w -=", accounts=("model",), gradient=True)
        script.clear()
    script.close()

    assert script.findings() == []


def test_gradients_of_inputs_need_no_step() -> None:
    script = over_model(Script(LOOP))
    for _ in range(6):
        script.fresh_batch(leaf=True)
    script.close()

    assert script.findings() == []


def test_one_of_two_optimizers_over_the_same_model_is_enough() -> None:
    script = over_model(Script(LOOP))
    script.build("model", optimizer="other")
    for _ in range(4):
        script.fresh_batch()
        script.spend("other")
    script.close()

    assert script.findings() == []


def test_steps_that_the_scaler_refused_are_steps() -> None:
    script = over_model(Script(LOOP))
    script.train_scaled(4, taken=False)
    script.close()

    assert script.findings() == []


def test_an_optimizer_that_skips_many_batches_and_then_steps_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.window(8, **mean(over=8))
    script.close()

    assert script.findings() == []


def test_three_backward_calls_are_a_training_loop() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.micro_batch()
    script.close()

    assert script.lines_of(rule) == [6]


def test_a_loss_whose_other_half_is_moved_by_hand_is_not_wasted() -> None:
    script = Script(LOOP)
    script.build("model", "prompt")
    for _ in range(4):
        script.micro_batch()
        script.move("w -=", accounts=("prompt",))
        script.clear()
    script.close()

    assert script.findings() == []


def test_an_optimizer_that_was_handed_in_is_reported_where_its_gradients_are_cleared_in_sight() -> (
    None
):
    for given, clears, alarms in (
        (True, True, ["GK107:6"]),
        (True, False, []),
        (False, True, []),
    ):
        script = over_model(Script(LOOP))
        script.escape(optimizers=("optimizer",), given=given)
        for _ in range(4):
            script.fresh_batch() if clears else script.micro_batch()
        script.close()

        assert script.alarms() == alarms


def test_of_all_that_is_cleared_and_never_applied_one_finding_tells() -> None:
    """never-stepped where nothing steps, discarded-gradient where something does."""
    never = over_model(Script(LOOP))
    for _ in range(4):
        never.fresh_batch()
    never.close()
    late = over_model(Script(LOOP))
    for _ in range(4):
        late.fresh_batch()
        late.clear()
        late.spend()
    late.close()

    assert never.alarms() == ["GK107:6"]
    assert late.alarms() == ["GK102:5"]


def test_an_optimizer_that_is_zeroed_beside_one_that_steps_is_reported_if_it_never_does() -> None:
    """Not if its gradients are only left alone, as those of a network that is trained later on."""
    for zeroed, steps, alarms in (
        (True, False, ["GK107:6"]),
        (True, True, []),
        (False, False, []),
    ):
        script = Script(PAIR)
        script.build("encoder")
        script.build("decoder", optimizer="other")
        for _ in range(4):
            script.fetch()
            script.clear()
            if zeroed:
                script.clear("other")
            script.credit("encoder", "decoder")
            script.spend()
        if steps:
            script.spend("other")
        script.close()

        assert script.alarms() == alarms


def test_a_critic_that_never_steps_is_told_at_its_own_loss_only() -> None:
    script = Script(PAIR)
    script.build("generator")
    script.build("critic", optimizer="other")
    for _ in range(4):
        script.fetch()
        script.clear("other")
        script.backward("critic_loss.backward()", accounts=("critic",))
        script.clear()
        script.credit("generator", "critic")
        script.spend()
    script.close()

    assert script.lines_of(rule) == [8]
