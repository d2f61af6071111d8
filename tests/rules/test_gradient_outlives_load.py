from gradkeeper.rules.gradient_outlives_load import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    model.load_state_dict(torch.load("best.pt"))
    optimizer.step()
"""


def load(script: Script, *, disk: bool = True) -> None:
    script.restore("model.load_state_dict(", accounts=("model",), disk=disk)


def saved(kind: str) -> Script:
    script = over_model(block(rule, kind))
    script.save("torch.save(", accounts=("model",))
    return script


def test_a_step_after_a_load_that_came_after_backward_is_reported() -> None:
    script = saved("bad")
    for _ in range(3):
        script.micro_batch(**mean())
        load(script)
        script.spend()
        script.clear()
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK403:10"]


def test_a_load_before_backward_is_silent() -> None:
    script = saved("good")
    for _ in range(3):
        script.fetch()
        load(script)
        script.credit(**mean())
        script.spend()
        script.clear()
    script.close()

    assert script.findings() == []


def test_the_finding_names_the_backward_and_the_load() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch()
    load(script)
    script.spend()

    (finding,) = script.findings()

    assert finding.message == "step() applies a gradient from before line 6 loaded new weights"
    assert finding.detail == ("account `optimizer`: credited on 5, weights loaded on 6, spent on 7")
    assert finding.remedy == "optimizer.zero_grad() after loading"
    assert reasons(finding) == [
        (5, "taken at the old weights"),
        (6, "new weights come in"),
    ]


def test_a_load_in_the_middle_of_a_window_is_reported() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch(**mean(over=2))
    load(script)
    script.micro_batch(**mean(over=2))
    script.spend()

    assert script.alarms() == ["GK403:7"]


def test_weights_put_back_from_memory_are_meant_to_meet_the_gradient() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fresh_batch()
        load(script, disk=False)
        script.spend()
    script.close()

    assert script.alarms() == []


def test_a_zero_after_the_load_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.train(2)
    script.micro_batch()
    load(script)
    script.train(2)
    script.close()

    assert script.alarms() == []


def test_a_load_between_step_and_zero_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.train(1)
        load(script)
    script.close()

    assert script.alarms() == []


def test_folds_that_each_start_from_the_same_file_are_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        load(script)
        script.train(4)
    script.close()

    assert script.alarms() == []
