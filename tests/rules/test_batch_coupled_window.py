from gradkeeper.model import Severity
from gradkeeper.rules.batch_coupled_window import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_batch_norm_inside_a_window_is_noted_at_the_step() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(2):
        script.window(4, coupled=True, **mean(over=4))
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == []


def test_layer_norm_inside_a_window_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(2):
        script.window(4, **mean(over=4))
    script.close()

    assert script.findings() == []


def test_the_finding_is_an_info_and_names_the_layer() -> None:
    script = over_model(Script(LOOP))
    script.window(3, coupled=True, **mean(over=3))

    (finding,) = script.findings()

    assert finding.severity == Severity.INFO
    assert finding.message == (
        "step() applies several batches of line 4, normalised one by one by a layer such as "
        "BatchNorm"
    )
    assert finding.detail == (
        "account `optimizer`: credited on 4 by batches whose rows are coupled"
    )
    assert finding.remedy == "LayerNorm or GroupNorm, or frozen statistics"
    assert reasons(finding) == [(4, "each batch has its own statistics")]


def test_batch_norm_in_windows_of_one_batch_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.window(1, coupled=True, **mean())
    script.close()

    assert script.findings() == []


def test_two_losses_of_one_coupled_batch_are_silent() -> None:
    script = over_model(Script(LOOP))
    script.fetch()
    script.credit(coupled=True)
    script.credit(coupled=True)
    script.spend()
    script.clear()
    script.close()

    assert script.findings() == []


def test_one_coupled_batch_in_a_window_of_two_is_noted() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch(**mean(over=2))
    script.window(1, coupled=True, **mean(over=2))

    assert script.lines_of(rule) == [5]
