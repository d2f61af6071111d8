import pytest

from gradkeeper.rules.unsynced_spend import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    all_reduce(p.grad)
    optimizer.step()
"""


def window(script: Script, *synced: bool | None) -> None:
    for one in synced:
        script.micro_batch(synced=one, **mean(over=len(synced)))


def test_a_window_closed_inside_no_sync_is_reported_at_the_step() -> None:
    script = over_model(block(rule, "bad"))
    script.train(4, synced=False, **mean())
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK501:13"]


def test_a_window_whose_last_backward_is_outside_no_sync_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(4):
        script.batch("for first")
        script.clear()
        for words, synced in (("model(first)", False), ("model(last)", True)):
            script.backward(words, accounts=("model",), synced=synced, **mean(over=2))
        script.spend()
    script.close()

    assert script.findings() == []


def test_the_finding_counts_the_unsynchronised_calls() -> None:
    script = over_model(Script(LOOP))
    window(script, False, False)
    script.spend()

    (finding,) = script.findings()

    assert finding.message == "step() applies gradients of line 5 that the ranks have not exchanged"
    assert finding.detail == ("account `optimizer`: credited on 5 without an exchange, spent on 7")
    assert finding.remedy == (
        "switch the exchange on before the window's last forward (FSDP2: its last backward)"
    )
    assert reasons(finding) == [(5, "this backward exchanged nothing")]


def test_a_backward_inside_no_sync_after_the_synchronised_one_is_reported() -> None:
    script = over_model(Script(LOOP))
    window(script, False, True, False)
    script.spend()

    assert script.alarms() == ["GK501:7"]


@pytest.mark.parametrize(
    "synced", [(False, False, True), (True, True), (None, None)], ids=["last", "each", "one rank"]
)
def test_windows_that_end_in_an_exchange_are_silent(synced: tuple[bool | None, ...]) -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        window(script, *synced)
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_gradients_exchanged_by_hand_are_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        window(script, False, False)
        script.reduce("all_reduce", accounts=("model",))
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_unsynchronised_gradients_that_are_zeroed_harm_nobody() -> None:
    script = over_model(Script(LOOP))
    window(script, False)
    script.read("loss.backward()", accounts=("model",))
    script.clear()
    window(script, True)
    script.spend()
    script.close()

    assert script.alarms() == []
