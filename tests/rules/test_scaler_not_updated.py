from gradkeeper.rules.scaler_not_updated import rule
from tests.script import Script, block, marked, mean, reasons

LOOP = """\
import torch
fast_opt = SGD(fast)
slow_opt = SGD(slow)
for x in loader:
    scaler.scale(fast_loss).backward()
    scaler.step(fast_opt)
    fast_opt.zero_grad()
    scaler.scale(slow_loss).backward()
    scaler.step(slow_opt)
    slow_opt.zero_grad()
    scaler.update()
"""


def built(script: Script) -> Script:
    script.build("fast", optimizer="fast_opt")
    script.build("slow", optimizer="slow_opt")
    return script


def credit(script: Script, line: str, account: str, scaler: str = "scaler", over: int = 1) -> None:
    script.scale(line, scaler=scaler)
    script.backward(line, accounts=(account,), scaler=scaler, **mean(over))


def step(script: Script, optimizer: str, scaler: str = "scaler", *, taken: bool = True) -> None:
    words = f"{scaler}.step({optimizer})"
    script.step(words, optimizer=optimizer, scaler=scaler, taken=taken)


def test_an_update_inside_the_slow_window_is_reported_at_the_update() -> None:
    script = built(block(rule, "bad"))
    for i in range(8):
        script.fetch()
        credit(script, "scaler.scale(fast(x)", "fast")
        step(script, "fast_opt")
        script.clear("fast_opt")
        credit(script, "scaler.scale(slow(x)", "slow", over=4)
        if (i + 1) % 4 == 0:
            step(script, "slow_opt")
            script.clear("slow_opt")
        script.update("scaler.update()", scaler="scaler")
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK303:15"]


def test_a_scaler_for_each_rhythm_is_silent() -> None:
    script = built(block(rule, "good"))
    for i in range(8):
        script.fetch()
        credit(script, "fast_scaler.scale", "fast", "fast_scaler")
        step(script, "fast_opt", "fast_scaler")
        script.update("fast_scaler.update()", scaler="fast_scaler")
        script.clear("fast_opt")
        credit(script, "slow_scaler.scale", "slow", "slow_scaler", over=4)
        if (i + 1) % 4 == 0:
            step(script, "slow_opt", "slow_scaler")
            script.update("slow_scaler.update()", scaler="slow_scaler")
            script.clear("slow_opt")
    script.close()

    assert script.findings() == []


def test_the_finding_inside_a_window_counts_the_scales() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        credit(script, "scaler.scale(slow_loss)", "slow", over=3)
        script.update("scaler.update()", scaler="scaler")
    step(script, "slow_opt")

    (finding,) = script.findings()

    assert finding.site.line == 11
    assert (
        finding.message
        == "scaler.update() changes the scale while gradients of the old one wait for their step"
    )
    assert finding.detail == (
        "account `slow_opt`: credited on 8 under several scales, spent on 9 as if it were one"
    )
    assert finding.remedy == "scaler.update() once per window, right after the step"
    assert reasons(finding) == [
        (8, "these gradients wait for one step"),
        (9, "divides all of them by the last scale"),
    ]


def test_a_second_step_without_an_update_is_reported() -> None:
    script = built(Script(LOOP))
    for _ in range(2):
        script.fetch()
        credit(script, "scaler.scale(fast_loss)", "fast")
        step(script, "fast_opt")
        script.clear("fast_opt")

    (finding,) = script.findings()

    assert finding.site.line == 6
    assert finding.message == "scaler.step(fast_opt) comes a second time without scaler.update()"
    assert finding.detail == "account `fast_opt`: spent on 6, `scaler` not updated since"
    assert finding.remedy == "scaler.update() right after the step"
    assert reasons(finding) == [(6, "the step before")]


def test_one_scaler_may_step_two_optimizers_before_one_update() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        credit(script, "scaler.scale(fast_loss)", "fast")
        step(script, "fast_opt")
        script.clear("fast_opt")
        credit(script, "scaler.scale(slow_loss)", "slow")
        step(script, "slow_opt")
        script.clear("slow_opt")
        script.update("scaler.update()", scaler="scaler")
    script.close()

    assert script.alarms() == []


def test_an_update_after_each_window_is_silent() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        for _ in range(4):
            script.fetch()
            credit(script, "scaler.scale(slow_loss)", "slow", over=4)
        step(script, "slow_opt")
        script.update("scaler.update()", scaler="scaler")
        script.clear("slow_opt")
    script.close()

    assert script.alarms() == []


def test_a_step_that_the_scaler_refused_is_followed_by_an_update_all_the_same() -> None:
    script = built(Script(LOOP))
    for i in range(3):
        script.fetch()
        credit(script, "scaler.scale(fast_loss)", "fast")
        step(script, "fast_opt", taken=i > 0)
        script.update("scaler.update()", scaler="scaler")
        script.clear("fast_opt")
    script.close()

    assert script.alarms() == []
