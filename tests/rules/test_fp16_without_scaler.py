from typing import Any

import pytest

from gradkeeper.rules.fp16_without_scaler import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_float16_loss_without_scaler_is_reported_at_its_backward() -> None:
    script = over_model(block(rule, "bad"))
    script.train(6, autocast="float16", **mean())
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK307:9"]


def test_a_bfloat16_loss_without_scaler_is_silent() -> None:
    script = over_model(block(rule, "good"))
    script.train(6, autocast="bfloat16", **mean())
    script.close()

    assert script.findings() == []


def test_the_finding_names_the_step_that_spends_what_is_left() -> None:
    script = over_model(Script(LOOP))
    script.train(1, autocast="float16", **mean())

    (finding,) = script.findings()

    assert finding.site.line == 5
    assert (
        finding.message
        == "backward() of a float16 loss without a scaler: small gradients become zero"
    )
    assert finding.detail == (
        "account `optimizer`: credited on 5 in float16 autocast, no scaler multiplied the loss"
    )
    assert finding.remedy == "torch.amp.GradScaler, or dtype=torch.bfloat16"
    assert reasons(finding) == [(6, "applies what is left of them")]


def test_one_unscaled_loss_of_a_window_is_enough() -> None:
    script = over_model(Script(LOOP))
    script.micro_batch(**mean(over=2))
    script.micro_batch(autocast="float16", **mean(over=2))
    script.spend()

    assert script.alarms() == ["GK307:5"]


def test_a_divided_float16_loss_is_not_scaled_by_hand() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.micro_batch(autocast="float16", **mean(over=4))
    script.spend()

    assert script.alarms() == ["GK307:5"]


def test_a_float16_loss_with_a_scaler_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.train_scaled(3, autocast="float16", **mean())
    script.close()

    assert script.findings() == []


@pytest.mark.parametrize(
    "facts",
    [
        {"autocast": "float16", "multiplier": 1024.0},
        {"autocast": None},
        {"autocast": "bfloat16"},
    ],
)
def test_a_loss_scaled_by_hand_or_of_another_type_is_silent(facts: dict[str, Any]) -> None:
    script = over_model(Script(LOOP))
    script.train(3, **facts)
    script.close()

    assert script.findings() == []


def test_a_float16_loss_that_is_never_spent_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.fetch()
    script.credit(autocast="float16")
    script.read("loss.backward()", accounts=("model",))
    script.clear()
    script.close()

    assert script.findings() == []
