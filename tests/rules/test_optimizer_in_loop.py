import pytest

from gradkeeper.rules.optimizer_in_loop import rule
from tests.script import Script, block, marked, mean, over_model

LOOP = """\
import torch
model.load_state_dict(start)
for x in loader:
    optimizer = Adam(model)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def rebuild(
    script: Script, number: int, *, steps: int = 1, account: str = "model", stateful: bool = True
) -> None:
    """A new object each time, so a new name; then a few plain rounds with it."""
    name = f"optimizer {number}"
    script.adopt("optimizer =", optimizer=name, accounts=(account,), stateful=stateful)
    for _ in range(steps):
        script.zero("optimizer.zero_grad()", accounts=(account,))
        script.credit(account, **mean())
        script.step("optimizer.step()", optimizer=name)


def test_an_optimizer_built_for_each_batch_is_reported_where_it_is_built() -> None:
    script = block(rule, "bad")
    for number in range(6):
        script.fetch()
        rebuild(script, number)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK604:5"]


def test_an_optimizer_built_before_the_loop_is_silent() -> None:
    script = over_model(block(rule, "good"))
    script.train(6, **mean())
    script.close()

    assert script.findings() == []


def test_the_finding_counts_the_optimizers_in_a_row() -> None:
    script = Script(LOOP)
    for number in (1, 2, 3):
        script.fetch()
        rebuild(script, number)

    (finding,) = script.findings()

    assert finding.site.line == 4
    assert finding.message == (
        "builds `optimizer 3` anew for about every step: its momentum and averages are lost"
    )
    assert finding.detail == (
        "account `optimizer 3`: one optimizer after another over the same parameters"
    )
    assert finding.remedy == "build it once, before the loop"
    assert finding.because == ()


def test_an_optimizer_built_for_every_second_step_is_reported() -> None:
    script = Script(LOOP)
    for number in range(4):
        rebuild(script, number, steps=2)

    assert script.alarms() == ["GK604:4"]


def test_an_optimizer_built_a_second_time_is_no_habit() -> None:
    script = Script(LOOP)
    rebuild(script, 1)
    rebuild(script, 2, steps=4)
    script.close()

    assert script.findings() == []


def test_a_new_optimizer_for_each_fold_is_silent() -> None:
    script = Script(LOOP)
    for number in range(5):
        rebuild(script, number, steps=6)
    script.close()

    assert script.findings() == []


def test_a_new_optimizer_that_remembers_nothing_is_silent() -> None:
    script = Script(LOOP)
    for number in range(5):
        rebuild(script, number, stateful=False)
    script.close()

    assert script.findings() == []


def test_a_new_optimizer_for_each_attacked_input_is_silent() -> None:
    script = Script(LOOP)
    for number in range(5):
        rebuild(script, number, account=f"perturbation {number}")
    script.close()

    assert script.findings() == []


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
def test_a_new_optimizer_for_weights_that_went_back_to_their_start_is_silent(disk: bool) -> None:
    script = Script(LOOP)
    for number in range(5):
        script.restore("load_state_dict", accounts=("model",), disk=disk)
        rebuild(script, number)
    script.close()

    assert script.findings() == []


def test_an_inner_optimizer_for_each_task_is_silent() -> None:
    """First-order MAML: adapt, go back to the start, and let the outer one spend the last loss."""
    script = Script(LOOP)
    script.adopt("import", optimizer="outer", accounts=("model",))
    for number in range(5):
        script.fetch()
        rebuild(script, number, steps=2)
        script.zero("optimizer.zero_grad()", accounts=("model",))
        script.backward("for x", accounts=("model",), **mean())
        script.restore("load_state_dict", accounts=("model",), disk=False)
        script.step("import", optimizer="outer")
        script.zero("optimizer.zero_grad()", accounts=("model",))
    script.close()

    assert script.findings() == []


def test_an_inner_optimizer_before_each_move_by_hand_is_silent() -> None:
    """Reptile: the weights are drawn towards where the inner steps went."""
    script = Script(LOOP)
    for number in range(5):
        script.fetch()
        rebuild(script, number, steps=2)
        script.move("load_state_dict", accounts=("model",))
    script.close()

    assert script.findings() == []


def test_an_optimizer_that_takes_in_more_parameters_is_not_built_anew() -> None:
    script = Script(LOOP)
    script.build("head")
    script.train(1)
    for account in ("last block", "middle block", "first block"):
        script.adopt("optimizer =", optimizer="optimizer", accounts=(account,))
        script.owned["optimizer"] = (*script.owned["optimizer"], account)
        script.train(1)
    script.close()

    assert script.findings() == []


def test_optimizers_that_were_built_and_never_stepped_lost_nothing() -> None:
    script = Script(LOOP)
    for number in range(5):
        rebuild(script, number, steps=0)

    assert script.findings() == []


def test_an_optimizer_built_on_each_batch_of_a_window_is_reported() -> None:
    script = Script(LOOP)
    for number in range(6):
        rebuild(script, number, steps=number % 2)

    assert script.alarms() == ["GK604:4"]


def test_optimizers_built_now_and_then_without_a_step_are_no_habit() -> None:
    script = Script(LOOP)
    for number, steps in enumerate((0, 1, 0, 6, 0, 1, 0, 6)):
        rebuild(script, number, steps=steps)
    script.close()

    assert script.findings() == []


def test_the_last_one_of_a_row_loses_nothing_if_it_never_steps() -> None:
    script = Script(LOOP)
    for number, steps in enumerate((1, 0, 0, 1, 0, 0)):
        rebuild(script, number, steps=steps)
    script.close()

    assert script.findings() == []
