import math
from typing import Any

import pytest

from gradkeeper.rules.clip_scaled_gradient import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


def scaled_batch(script: Script, **facts: Any) -> None:
    script.fetch()
    script.scale("scaler.scale(loss)", scaler="scaler")
    loss = mean() | {"autocast": "float16", "scaler": "scaler"} | facts
    script.backward("backward()", accounts=("model",), **loss)


def unscale(script: Script) -> None:
    script.unscale("scaler.unscale_", scaler="scaler", optimizer="optimizer")


def clip(script: Script, **facts: Any) -> None:
    script.clip("clip_grad_norm_", accounts=("model",), **({"bound": 1.0} | facts))


def step(script: Script, *, taken: bool = True) -> None:
    script.step("scaler.step(optimizer)", optimizer="optimizer", scaler="scaler", taken=taken)
    script.update("scaler.update()", scaler="scaler")


def test_clipping_before_unscaling_is_reported_at_the_clip() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(6):
        script.clear()
        scaled_batch(script)
        clip(script)
        step(script)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK301:11"]


def test_clipping_after_unscaling_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(6):
        script.clear()
        scaled_batch(script)
        unscale(script)
        clip(script)
        step(script)
    script.close()

    assert script.findings() == []


def test_the_finding_names_the_scaler_and_the_scaled_loss() -> None:
    script = over_model(Script(LOOP))
    script.clear()
    scaled_batch(script)
    clip(script)
    step(script)

    (finding,) = script.findings()

    assert finding.message == "clips gradients that are still multiplied by the scale of `scaler`"
    assert finding.detail == (
        "account `optimizer`: credited on 5 with a scaled loss, clipped on 7, spent on 8"
    )
    assert finding.remedy == "scaler.unscale_(optimizer) before clipping"
    assert reasons(finding) == [
        (5, "this loss was multiplied by the scale"),
        (8, "applies what was clipped"),
    ]


def test_unscaling_only_after_the_clip_is_reported() -> None:
    script = over_model(Script(LOOP))
    script.clear()
    scaled_batch(script)
    clip(script)
    unscale(script)
    step(script)

    assert script.alarms() == ["GK301:7"]


def test_clipping_by_value_with_an_unknown_bound_is_reported() -> None:
    script = over_model(Script(LOOP))
    script.clear()
    scaled_batch(script)
    clip(script, bound=None)
    step(script)

    assert script.alarms() == ["GK301:7"]


@pytest.mark.parametrize("facts", [{"bound": math.inf}, {"scale_aware": True}])
def test_a_bound_that_fits_the_scale_is_silent(facts: dict[str, Any]) -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.clear()
        scaled_batch(script)
        clip(script, **facts)
        step(script)
    script.close()

    assert script.alarms() == []


def test_a_window_unscaled_once_before_its_clip_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.clear()
        for _ in range(4):
            scaled_batch(script, **mean(over=4))
        unscale(script)
        clip(script)
        step(script)
    script.close()

    assert script.alarms() == []


def test_a_clip_of_what_a_refused_step_left_alone_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.clear()
    scaled_batch(script)
    clip(script)
    step(script, taken=False)
    script.close()

    assert script.alarms() == []


def test_a_clip_without_any_scaler_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.fetch()
        script.clear()
        script.backward("backward()", accounts=("model",))
        clip(script)
        script.step("scaler.step(optimizer)", optimizer="optimizer")
    script.close()

    assert script.alarms() == []
