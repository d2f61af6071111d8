"""Records written by hand: a run of windows of two, and restarts that lost something."""

from dataclasses import replace
from typing import Any

import pytest

from gradkeeper.prove.diagnosis import began_anew, parting
from gradkeeper.prove.process import BackwardRecord, ProcessRecord, StepRecord

TORCH = frozenset({"torch"})


def run(first: int = 0, *, micro: int = 0, end: int = 4, spoiled: bool = False) -> ProcessRecord:
    """Steps `first` to `end`; spoiled, its steps leave other weights."""
    events: list[BackwardRecord | StepRecord] = []
    for step in range(first, end):
        for place in range(micro if step == first else 0, 2):
            events.append(
                BackwardRecord(
                    step=step - first,
                    micro=place,
                    weights=f"w{step}" + ("x" if spoiled and step > first else ""),
                    optimizer=f"o{step}",
                    gradients=f"g{step}" if place else None,
                    batch=f"b{step}.{place}",
                    generators={"torch": f"r{step}.{place}", "Python": "unseeded"},
                    loss=f"l{step}.{place}",
                )
            )
        events.append(StepRecord(f"w{step + 1}" + ("x" if spoiled else ""), (0.1 / (step + 1),)))
    return ProcessRecord("command", events[0].weights, tuple(events), False, "final")


def changed(record: ProcessRecord, **facts: Any) -> ProcessRecord:
    """The first backward with other facts."""
    first = replace(record.backwards[0], **facts)
    return replace(record, events=(first, *record.events[1:]))


def test_a_restart_that_does_all_of_it_once_more_began_anew() -> None:
    assert began_anew(run(), run())
    assert began_anew(replace(run(end=2), killed=True, final=None), run())


def test_a_restart_with_later_weights_went_on() -> None:
    assert not began_anew(run(2), run())
    assert not began_anew(replace(run(), began="of no step"), run())


def test_a_restart_within_the_first_window_went_on_though_its_weights_are_the_first() -> None:
    restart = replace(run(micro=1), final=None)

    assert restart.began == run().began
    assert not began_anew(restart, run())


def test_batches_that_were_not_seen_are_not_said_to_be_the_same() -> None:
    def without_batches(record: ProcessRecord) -> ProcessRecord:
        events = [
            replace(event, batch=None) if isinstance(event, BackwardRecord) else event
            for event in record.events
        ]
        return replace(record, events=tuple(events))

    restart = changed(without_batches(run(2, spoiled=True)), loss="another")

    seen = parting(1, changed(run(2, spoiled=True), loss="another"), run(), TORCH)
    unseen = parting(1, restart, without_batches(run()), TORCH)
    assert seen is not None
    assert unseen is not None
    assert "for the same weights, batches and random numbers" in str(seen)
    assert "were they drawn before the resume?" in str(unseen)


def test_a_restart_that_had_less_to_do_went_on_though_no_state_tells() -> None:
    """A warm-up whose first step changed nothing: only the number of steps is left to see."""
    asleep: dict[str, Any] = {
        "weights": "w0",
        "optimizer": "o",
        "batch": None,
        "generators": {},
        "loss": "l",
    }
    one = replace(run(end=1).backwards[0], gradients=None, **asleep)
    step = StepRecord("w0", (0.0,))
    whole = replace(run(), began="w0", events=(one, step) * 4)

    assert not began_anew(replace(whole, events=(one, step) * 3), whole)
    assert began_anew(whole, whole)


def test_steps_without_a_backward_are_told_apart_by_their_weights() -> None:
    whole = replace(run(), events=tuple(run().steps))

    assert began_anew(whole, whole)
    assert not began_anew(replace(whole, began="w2", events=whole.events[2:]), whole)


def test_a_restart_that_goes_the_same_way_does_not_part() -> None:
    assert parting(1, run(2), run(), TORCH) is None
    assert parting(1, run(2, micro=1), run(), TORCH) is None


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ({"generators": {"torch": "other"}}, "random numbers: the generator of torch is in"),
        ({"batch": "b0.0"}, "order of batches: where step 3, micro-step 1 should come, it goes on"),
        ({"batch": "new"}, "order of batches: where step 3, micro-step 1 should come, a batch"),
        ({"optimizer": "none"}, "optimizer: its state"),
        ({"gradients": "old"}, "pending gradients: there are some where"),
        ({"loss": "other"}, "loss: it differs for the same weights"),
        ({}, "it cannot be told"),
    ],
)
def test_what_differs_before_the_wrong_step_is_the_cause(facts: dict[str, Any], cause: str) -> None:
    found = parting(3, changed(run(2, spoiled=True), **facts), run(), TORCH)

    assert found is not None
    assert (found.kill, found.step) == (3, 3)
    (only,) = found.causes
    assert only.startswith(cause)


def test_gradients_that_were_pending_are_counted() -> None:
    restart = changed(run(2, micro=1, spoiled=True), gradients=None)

    found = parting(1, restart, run(), TORCH)

    assert found is not None
    assert found.causes == ("pending gradients: 1 micro-batch was lost",)


def test_a_learning_rate_that_starts_over_is_told() -> None:
    restart = run(2, spoiled=True)
    events = [
        replace(one, rates=(0.1,)) if isinstance(one, StepRecord) else one for one in restart.events
    ]

    found = parting(1, replace(restart, events=tuple(events)), run(), TORCH)

    assert found is not None
    assert found.causes == ("learning rate: 0.1 instead of 0.0333333",)


def test_weights_that_the_run_never_had_part_at_once() -> None:
    found = parting(1, changed(run(2), weights="strange"), run(), TORCH)

    assert found is not None
    assert found.step is None


def test_generators_that_nobody_seeded_are_no_cause() -> None:
    odd = {"torch": "r2.0", "Python": "another"}

    found = parting(1, changed(run(2, spoiled=True), generators=odd), run(), TORCH)

    assert found is not None
    assert not any("random" in cause for cause in found.causes)
