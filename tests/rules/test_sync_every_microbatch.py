from gradkeeper.model import Severity
from gradkeeper.rules.sync_every_microbatch import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    loss.backward()
    all_reduce(p.grad)
    optimizer.step()
    optimizer.zero_grad()
"""


def test_an_exchange_on_each_micro_batch_is_noted_at_the_step() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(2):
        script.window(2, synced=True, **mean(over=2))
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == []


def test_one_exchange_per_window_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(2):
        script.micro_batch(synced=False, **mean(over=2))
        script.window(1, synced=True, **mean(over=2))
    script.close()

    assert script.findings() == []


def test_the_finding_is_an_info_and_counts_the_exchanges() -> None:
    script = over_model(Script(LOOP))
    script.window(3, synced=True, **mean(over=3))

    (finding,) = script.findings()

    assert finding.severity == Severity.INFO
    assert finding.message == (
        "the ranks exchange gradients on every backward() of line 4: once for each step() would do"
    )
    assert finding.detail == "account `optimizer`: exchanged on each backward of 4, spent on 6"
    assert finding.remedy == "model.no_sync() around all but the last micro-batch before a step"
    assert reasons(finding) == [(4, "exchanges gradients each time")]


def test_exchanges_by_hand_on_each_micro_batch_are_noted() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.micro_batch(synced=False, **mean(over=2))
        script.reduce("all_reduce", accounts=("model",))
    script.spend()

    assert script.lines_of(rule) == [6]


def test_an_exchange_on_each_of_several_plain_steps_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.window(1, synced=True, **mean())
    script.close()

    assert script.findings() == []


def test_two_losses_of_one_batch_that_each_exchange_are_silent() -> None:
    script = over_model(Script(LOOP))
    script.fetch()
    script.credit(synced=True)
    script.credit(synced=True)
    script.spend()
    script.clear()
    script.close()

    assert script.findings() == []


def test_a_single_rank_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.window(4, **mean(over=4))
    script.close()

    assert script.findings() == []
