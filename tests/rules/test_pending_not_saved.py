from typing import Any

import pytest

from gradkeeper.rules.pending_not_saved import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
other = SGD(critic)
for x in loader:
    loss.backward()
    torch.save(state, "last.pt")
    optimizer.step()
    optimizer.zero_grad()
    other.step()
"""


def save(script: Script, **facts: Any) -> None:
    state = {"accounts": ("model",), "optimizers": ("optimizer",)} | facts
    script.save("torch.save(", **state)


def test_a_checkpoint_inside_a_window_is_reported_at_the_save() -> None:
    script = over_model(block(rule, "bad"))
    script.window(2, **mean(over=2))
    script.micro_batch(**mean(over=2))
    save(script)
    script.window(1, **mean(over=2))
    for _ in range(2):
        script.window(2, **mean(over=2))
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK401:11"]


def test_a_checkpoint_after_the_step_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for i in range(4):
        script.window(2, **mean(over=2))
        if i == 1:
            save(script)
    script.close()

    assert script.findings() == []


def test_the_finding_at_the_step_names_the_backward_and_who_spends_it() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    save(script)
    script.spend()

    (finding,) = script.findings()

    assert finding.site.line == 6
    assert (
        finding.message
        == "saves while the gradient of line 5 waits for its step(), and leaves it out"
    )
    assert finding.detail == (
        "account `optimizer`: credited on 5, not spent when saved on 6; state_dict() holds no .grad"
    )
    assert finding.remedy == "save right after step() and zero_grad()"
    assert reasons(finding) == [
        (5, "this backward's gradient waits, and is not in the checkpoint"),
        (7, "applies it later in this run"),
    ]


def test_a_checkpoint_to_resume_from_is_reported_also_when_the_run_ends_there() -> None:
    script = over_model(Script(LOOP))
    script.window(1)
    script.micro_batch()
    save(script)
    script.close()

    (finding,) = script.findings()

    assert finding.site.line == 6
    assert reasons(finding) == [(5, "this backward's gradient waits, and is not in the checkpoint")]


def test_weights_saved_alone_when_the_run_ends_are_an_export() -> None:
    script = over_model(Script(LOOP))
    script.window(1)
    script.micro_batch()
    save(script, optimizers=())
    script.close()

    assert script.findings() == []


def test_weights_saved_alone_inside_a_window_that_goes_on_are_reported() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    save(script, optimizers=())
    script.micro_batch()
    script.spend()

    assert script.alarms() == ["GK401:6"]


def test_weights_saved_alone_right_before_the_step_are_those_whose_loss_was_seen() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    save(script, optimizers=())
    script.spend()

    assert script.alarms() == []


@pytest.mark.parametrize("facts", [{"gradients": True}, {"disk": False}])
def test_gradients_saved_on_purpose_and_copies_in_memory_are_silent(facts: dict[str, bool]) -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    save(script, **facts)
    script.spend()
    script.clear()
    script.close()

    assert script.findings() == []


def test_a_checkpoint_between_step_and_zero_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.micro_batch()
        script.spend()
        save(script)
        script.clear()
    script.close()

    assert script.findings() == []


def test_the_critics_leftovers_of_a_settled_loss_are_no_loss() -> None:
    script = over_model(Script(LOOP))
    script.build("critic", optimizer="other")
    for _ in range(3):
        script.fetch()
        script.zero("other.step()", accounts=("critic",))
        script.backward("other =", accounts=("critic",))
        script.spend("other")
        script.zero("other.step()", accounts=("critic",))
        script.credit("model", "critic")
        script.spend()
        script.clear()
        save(script, accounts=("model", "critic"), optimizers=("optimizer", "other"))
    script.close()

    assert script.alarms() == []


def test_gradients_read_for_themselves_are_not_missed_in_a_checkpoint() -> None:
    script = over_model(Script(LOOP))
    script.window(1)
    script.micro_batch()
    script.read("loss.backward()", accounts=("model",))
    save(script)
    script.close()

    assert script.findings() == []


def test_a_checkpoint_of_other_weights_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    save(script, accounts=("average",), optimizers=())
    script.spend()
    script.clear()
    script.close()

    assert script.findings() == []
