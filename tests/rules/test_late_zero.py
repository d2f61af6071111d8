from gradkeeper.model import Severity
from gradkeeper.rules.late_zero import rule
from tests.script import Script, block, marked, mean, over_model

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def forward(script: Script) -> None:
    script.forward("loss = ", accounts=("model",))


def test_a_zero_between_forward_and_backward_is_noted_at_the_zero() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(6):
        script.fetch()
        forward(script)
        script.clear()
        script.credit(**mean())
        script.spend()
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == []


def test_a_zero_at_the_top_of_the_iteration_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(6):
        script.fetch()
        script.clear()
        forward(script)
        script.credit(**mean())
        script.spend()
    script.close()

    assert script.findings() == []


def test_the_finding_is_an_info_and_names_the_backward() -> None:
    script = over_model(Script(LOOP))
    forward(script)
    script.clear()
    script.credit()

    (finding,) = script.findings()

    assert finding.severity == Severity.INFO
    assert finding.site.line == 5
    assert finding.message == "zeroes between the forward and backward() on line 6"
    assert (
        finding.detail
        == "account `model`: zeroed on 5, after the forward whose loss is credited on 6"
    )
    assert finding.remedy == "move it to the top of the iteration"
    assert finding.because == ()


def test_a_zero_after_the_step_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fetch()
        forward(script)
        script.credit()
        script.spend()
        script.clear()
    script.close()

    assert script.findings() == []


def test_a_forward_for_validation_before_the_zero_is_silent_once_another_follows() -> None:
    script = over_model(Script(LOOP))
    forward(script)
    script.clear()
    forward(script)
    script.credit()

    assert script.lines_of(rule) == []
