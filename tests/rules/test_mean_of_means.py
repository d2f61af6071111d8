import pytest

from gradkeeper.rules.mean_of_means import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    loss.backward()
    p.grad /= items
    optimizer.step()
    optimizer.zero_grad()
"""


def window(script: Script, items: list[int], *, of: int = 8, reduction: str = "mean") -> None:
    """One micro-batch for each number of items that ignore_index left of `of`."""
    for kept in items:
        script.micro_batch(
            multiplier=1 / len(items), reduction=reduction, items=kept, ignored=of - kept
        )


def finish(script: Script) -> None:
    script.spend()
    script.clear()


def test_means_over_different_numbers_of_items_are_reported_at_the_step() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(2):
        window(script, [8, 6, 4, 2])
        finish(script)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK204:12"]


def test_sums_divided_once_by_all_items_are_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(2):
        for kept in (8, 6, 4, 2):
            script.micro_batch(multiplier=1.0, reduction="sum", items=kept, ignored=8 - kept)
        script.adjust("p.grad /= items", accounts=("model",))
        finish(script)
    script.close()

    assert script.findings() == []


def test_the_finding_counts_the_items() -> None:
    script = over_model(Script(LOOP))
    window(script, [62, 12, 30, 7], of=64)
    script.spend()

    (finding,) = script.findings()

    assert finding.message == "step() averages means over 7 to 62 items with equal weight"
    assert finding.detail == (
        "account `optimizer`: credited on 4 with means over 62, 12, 30, 7 items"
    )
    assert finding.remedy == (
        'reduction="sum", then divide the gradients once by the items of all batches'
    )
    assert reasons(finding) == [(4, "ignore_index leaves a different number of items each time")]


def test_a_batch_of_which_nothing_is_left_is_reported() -> None:
    script = over_model(Script(LOOP))
    window(script, [8, 0])
    script.spend()

    assert script.lines_of(rule) == [6]


def test_a_merely_smaller_last_batch_is_silent() -> None:
    script = over_model(Script(LOOP))
    for rows in (8, 8, 8, 3):
        script.micro_batch(**mean(over=4), items=rows, ignored=0)
    finish(script)
    script.close()

    assert script.alarms() == []


def test_padding_that_removes_about_as_much_each_time_is_silent() -> None:
    script = over_model(Script(LOOP))
    window(script, [500, 505, 498, 510], of=512)
    finish(script)
    script.close()

    assert script.alarms() == []


def test_means_weighted_by_their_items_are_silent() -> None:
    script = over_model(Script(LOOP))
    for kept in (8, 6, 4, 2):
        script.micro_batch(multiplier=kept / 20, reduction="mean", items=kept, ignored=8 - kept)
    finish(script)
    script.close()

    assert script.alarms() == []


def test_gradients_brought_to_their_weight_by_hand_are_silent() -> None:
    script = over_model(Script(LOOP))
    window(script, [8, 6, 4, 2])
    script.adjust("p.grad /=", accounts=("model",))
    finish(script)
    script.close()

    assert script.alarms() == []


def test_sums_are_silent() -> None:
    script = over_model(Script(LOOP))
    window(script, [8, 6, 4, 2], reduction="sum")
    finish(script)
    script.close()

    assert script.alarms() == []


def test_windows_of_one_batch_average_nothing() -> None:
    script = over_model(Script(LOOP))
    for kept in (8, 6, 4, 2):
        window(script, [kept])
        finish(script)
    script.close()

    assert script.alarms() == []


@pytest.mark.parametrize("unknown", [{"items": None}, {"reduction": None}])
def test_what_is_not_known_is_not_judged(unknown: dict[str, None]) -> None:
    script = over_model(Script(LOOP))
    for kept in (8, 6, 4, 2):
        facts = mean(over=4) | {"items": kept, "ignored": 8 - kept} | unknown
        script.micro_batch(**facts)
    finish(script)
    script.close()

    assert script.alarms() == []


def test_one_batch_of_unknown_items_makes_the_window_unknown() -> None:
    script = over_model(Script(LOOP))
    window(script, [8, 2])
    script.micro_batch(**mean(over=2), ignored=3)
    finish(script)
    script.close()

    assert script.alarms() == []
