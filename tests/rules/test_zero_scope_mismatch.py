from gradkeeper.rules.zero_scope_mismatch import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD([model, temperature])
other = SGD(model)
for x in loader:
    model.zero_grad()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    other.step()
"""

BOTH = ("model", "temperature")


def loop() -> Script:
    script = Script(LOOP)
    script.build(*BOTH)
    return script


def round_of(script: Script, *, zeroes: tuple[str, ...], reaches: tuple[str, ...] = BOTH) -> None:
    script.fetch()
    script.zero("model.zero_grad()", accounts=zeroes)
    script.credit(*reaches, **mean())
    script.spend()


def test_a_head_that_the_models_zero_leaves_out_is_reported_at_the_step() -> None:
    script = block(rule, "bad")
    script.build("model", "head")
    for _ in range(6):
        round_of(script, zeroes=("model",), reaches=("model", "head"))
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK602:10"]


def test_zeroing_by_the_optimizer_that_steps_is_silent() -> None:
    script = block(rule, "good")
    script.build("model", "head")
    script.train(6, **mean())
    script.close()

    assert script.findings() == []


def test_the_finding_names_what_is_zeroed_and_what_is_not() -> None:
    script = loop()
    for _ in range(2):
        round_of(script, zeroes=("model",))

    (finding,) = script.findings()

    assert finding.message == (
        "step() applies the gradient of `temperature` a second time: line 5 zeroes `model` only"
    )
    assert finding.detail == ("account `temperature`: credited on 6, spent on 7, not zeroed since")
    assert finding.remedy == "optimizer.zero_grad() instead: it clears all that is stepped"
    assert reasons(finding) == [(5, "zeroes `model` and not `temperature`")]


def test_a_loop_that_zeroes_nothing_belongs_to_another_rule() -> None:
    script = loop()
    for _ in range(2):
        round_of(script, zeroes=())

    assert script.alarms() == ["GK101:7"]


def test_zeroing_more_than_is_stepped_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        round_of(script, zeroes=BOTH, reaches=("model",))
    script.close()

    assert script.findings() == []


def test_zeroing_part_by_part_is_silent() -> None:
    script = loop()
    for _ in range(3):
        script.zero("model.zero_grad()", accounts=("temperature",))
        round_of(script, zeroes=("model",))
    script.close()

    assert script.findings() == []


def test_what_is_not_zeroed_and_never_reached_is_silent() -> None:
    script = loop()
    for _ in range(3):
        round_of(script, zeroes=("model",), reaches=("model",))
    script.close()

    assert script.alarms() == []


def test_a_trunk_that_another_optimizer_spent_and_did_not_zero_is_silent() -> None:
    script = loop()
    script.build("model", optimizer="other")
    for _ in range(3):
        script.fetch()
        script.zero("model.zero_grad()", accounts=BOTH)
        script.credit(*BOTH)
        script.spend("other")
        script.zero("model.zero_grad()", accounts=("temperature",), waived=True)
        script.spend()
    script.close()

    assert script.alarms() == []
