from gradkeeper.rules.scheduler_out_of_step import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
scheduler = StepLR(optimizer)
for _ in range(start): scheduler.step()
for epoch in range(3):
    for x in loader:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()  # again
"""

EACH_BATCH = "scheduler.step()  # again"
FORWARD = "scheduler.step()"


def tick(script: Script, words: str = EACH_BATCH, *, metric: bool = False) -> None:
    script.tick(words, scheduler="scheduler", optimizer="optimizer", metric=metric)


def test_a_tick_on_each_micro_batch_of_a_window_is_reported_at_the_tick() -> None:
    script = over_model(block(rule, "bad"))
    for i in range(8):
        script.micro_batch(**mean(over=4))
        if (i + 1) % 4 == 0:
            script.spend()
            script.clear()
        tick(script, "scheduler.step()")
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK205:12"]


def test_a_tick_after_each_step_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(2):
        script.window(4, **mean(over=4))
        tick(script, "scheduler.step()")
    script.close()

    assert script.findings() == []


def test_the_finding_counts_the_ticks_inside_the_window() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.micro_batch(**mean(over=3))
        tick(script)
    script.spend()

    (finding,) = script.findings()

    assert finding.site.line == 10
    assert finding.message == "the scheduler steps on every batch, `optimizer` once for several"
    assert finding.detail == (
        "account `optimizer`: spent on 9 once for several batches; the learning rate moves on each"
    )
    assert finding.remedy == "scheduler.step() where the optimizer steps, under the same condition"
    assert reasons(finding) == [(9, "steps once for several batches")]


def test_a_tick_before_the_first_step_is_reported_where_it_goes_on() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.fetch()
        tick(script)
        script.clear()
        script.credit()
        script.spend()

    (finding,) = script.findings()

    assert finding.site.line == 10
    assert finding.message == (
        "scheduler.step() comes before the first optimizer.step(): the schedule runs one step ahead"
    )
    assert finding.detail == ("account `optimizer`: first spent after `scheduler` had moved on")
    assert finding.remedy == "scheduler.step() after optimizer.step()"
    assert reasons(finding) == [(9, "`optimizer` steps here")]


def test_a_tick_at_the_top_of_each_epoch_is_reported() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        tick(script)
        script.epoch_begin("for epoch", source="loader")
        script.train(3, source="loader")
        script.epoch_end("for epoch", source="loader")
    script.close()

    assert script.alarms() == ["GK205:10"]


def test_the_constructors_own_tick_is_silent() -> None:
    script = over_model(Script(LOOP))
    tick(script, "scheduler =")
    for _ in range(3):
        script.train(1)
        tick(script)
    script.close()

    assert script.alarms() == []


def test_running_forward_to_where_a_checkpoint_left_off_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(20):
        tick(script, FORWARD)
    for _ in range(3):
        script.train(1)
        tick(script)
    script.close()

    assert script.alarms() == []


def test_a_scheduler_fed_a_metric_may_tick_when_it_likes() -> None:
    script = over_model(Script(LOOP))
    tick(script, metric=True)
    for _ in range(2):
        for _ in range(4):
            script.micro_batch(**mean(over=4))
            tick(script, metric=True)
        script.spend()
        script.clear()
    script.close()

    assert script.alarms() == []


def test_one_tick_per_epoch_beside_windows_is_silent() -> None:
    script = over_model(Script(LOOP))
    for _ in range(3):
        script.epoch_begin("for epoch", source="loader")
        script.window(2, source="loader", **mean(over=2))
        script.window(2, source="loader", **mean(over=2))
        script.epoch_end("for epoch", source="loader")
        tick(script)
    script.close()

    assert script.alarms() == []


def test_one_tick_per_epoch_while_a_window_goes_on_across_epochs_is_silent() -> None:
    script = over_model(Script(LOOP))
    done = 0
    for _ in range(4):
        script.epoch_begin("for epoch", source="loader")
        for _ in range(3):
            script.micro_batch(source="loader", **mean(over=2))
            done += 1
            if done % 2 == 0:
                script.spend()
                script.clear()
        script.epoch_end("for epoch", source="loader")
        tick(script)
    script.close()

    assert script.alarms() == []


def test_a_tick_on_each_micro_batch_while_a_window_goes_on_across_epochs_is_reported() -> None:
    script = over_model(Script(LOOP))
    script.train(1, source="loader")
    for _ in range(2):
        script.epoch_begin("for epoch", source="loader")
        for _ in range(3):
            script.micro_batch(source="loader", **mean(over=6))
            tick(script)
        script.epoch_end("for epoch", source="loader")
    script.spend()

    assert "GK205:10" in script.alarms()


def test_a_first_step_that_the_scaler_refused_counts_as_a_step() -> None:
    script = over_model(Script(LOOP))
    for i in range(3):
        script.train_scaled(1, taken=i > 0)
        tick(script)
    script.close()

    assert script.alarms() == []


def test_an_empty_step_before_the_first_tick_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.clear()
    script.spend()
    tick(script, FORWARD)
    for _ in range(3):
        script.train(1)
        tick(script)
    script.close()

    assert script.alarms() == []


def test_a_tick_between_two_losses_of_one_batch_is_inside_no_window() -> None:
    script = over_model(Script(LOOP))
    script.train(1)
    for _ in range(3):
        script.fresh_batch()
        tick(script)
        script.credit()
        script.spend()
    script.close()

    assert script.alarms() == []


def test_a_tick_between_the_two_batches_of_a_window_is_reported() -> None:
    script = over_model(Script(LOOP))
    script.window(2, **mean(over=2))
    for _ in range(2):
        script.micro_batch(**mean(over=2))
        tick(script)
    script.spend()

    assert script.alarms() == ["GK205:10"]


def test_a_scheduler_that_ticked_early_may_be_fed_a_metric_later() -> None:
    script = over_model(Script(LOOP))
    tick(script)
    for _ in range(3):
        script.train(1)
        tick(script, metric=True)
    script.close()

    assert script.alarms() == []
