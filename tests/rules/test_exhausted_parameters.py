import pytest

from gradkeeper.rules.exhausted_parameters import rule
from tests.script import Script, block, marked, mean, over_model

LOOP = """\
import torch
params = model.parameters()
optimizer = SGD(params)
other = SGD(params)
"""


def test_a_clip_of_an_iterator_that_is_used_up_is_reported_at_the_clip() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(6):
        script.fresh_batch(**mean())
        script.exhaust("clip_grad_norm_", use="clip_grad_norm_")
        script.spend()
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK306:10"]


def test_a_clip_of_a_list_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(6):
        script.fresh_batch(**mean())
        script.clip("clip_grad_norm_", accounts=("model",), bound=1.0)
        script.spend()
    script.close()

    assert script.findings() == []


@pytest.mark.parametrize("use", ["clip_grad_norm_", "the second optimizer", "the loop"])
def test_the_finding_names_who_gets_nothing(use: str) -> None:
    script = over_model(Script(LOOP))
    script.exhaust("other =", use=use)

    (finding,) = script.findings()

    assert finding.site.line == 4
    assert finding.message == f"{use} works on nothing: its iterator of parameters is used up"
    assert finding.detail == (
        "what model.parameters() returns can be read once, and was read before"
    )
    assert finding.remedy == (
        "list(...) around it where it is made, as in params = list(model.parameters())"
    )
    assert finding.because == ()
