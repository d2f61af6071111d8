"""A tape judged again says what the watch said: the same findings, counts and steps."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import gradkeeper
from gradkeeper.model import Finding, Findings, audit
from gradkeeper.model.events import Again
from gradkeeper.rules import ALL
from gradkeeper.watcher import Watch, event_log

ACTIONS = ("zero", "backward", "half", "step", "other step", "clip", "tick", "both")
FOREVER = 10**9


@contextmanager
def without_folding() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_log, "ROUNDS", FOREVER)
        yield


def train(rounds: list[tuple[tuple[str, ...], int]]) -> Watch:
    """Loops of so many rounds, each of these actions in a row; two optimizers over two layers.

    They move next to nothing: gradients that pile up would end in NaN, and only a loop that is not
    steady is asked for that (GK305).
    """
    torch.manual_seed(0)
    one, two = nn.Linear(3, 1), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(one.parameters(), lr=1e-9)
    other = torch.optim.SGD(two.parameters(), lr=1e-9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
    with Watch(on_finding="record") as watch:
        for actions, times in rounds:
            for _ in range(times):
                for action in actions:
                    x = torch.randn(2, 3)
                    match action:
                        case "zero":
                            optimizer.zero_grad()
                        case "backward":
                            one(x).square().mean().backward()
                        case "half":
                            (one(x).square().mean() / 2).backward()
                        case "both":
                            (one(x) * two(x)).square().mean().backward()
                        case "step":
                            optimizer.step()
                        case "other step":
                            other.step()
                        case "clip":
                            nn.utils.clip_grad_norm_(one.parameters(), 1.0)
                        case "tick":
                            scheduler.step()
    return watch


def replayed(watch: Watch) -> list[Finding]:
    return list(Findings(audit(watch.tape, ALL)))


def counted(findings: list[Finding]) -> list[tuple[object, ...]]:
    return [
        (one.rule, one.site.line, one.severity, one.count, one.first_step, one.last_step)
        for one in findings
    ]


def told(watch: Watch) -> list[Finding]:
    return sorted([*watch.findings, *watch.infos], key=lambda one: (one.site, one.rule))


@pytest.mark.filterwarnings("ignore:Detected call of")
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=6).map(tuple),
            st.integers(1, 40),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_replay_finds_what_the_watch_found_and_counts_it_alike(
    rounds: list[tuple[tuple[str, ...], int]],
) -> None:
    watch = train(rounds)
    with without_folding():
        plain = train(rounds)

    assert counted(replayed(watch)) == counted(told(watch))
    assert counted(told(watch)) == counted(told(plain))


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("rounds", [12, 32, 33, 40, 600])
@pytest.mark.parametrize(
    ("actions", "found"),
    [
        pytest.param(("clip", "backward", "clip", "backward"), "GK304", id="clip first"),
        pytest.param(("backward", "clip", "backward", "clip"), "GK304", id="clip last"),
        pytest.param(("backward", "tick", "backward", "tick"), "GK205", id="tick"),
        pytest.param(("backward", "backward"), None, id="neither"),
        pytest.param(("backward", "backward", "clip", "tick"), None, id="once for two"),
    ],
)
def test_a_window_is_judged_alike_however_long_it_is(
    actions: tuple[str, ...], found: str | None, rounds: int
) -> None:
    tape = [(actions, rounds), (("step",), 1)]
    watch = train(tape)
    with without_folding():
        plain = train(tape)

    assert rounds < 32 or any(isinstance(event, Again) for event in watch.tape)
    assert counted(replayed(watch)) == counted(told(watch))
    assert counted(told(watch)) == counted(told(plain))
    assert {one.rule for one in watch.findings} & {"GK304", "GK205"} == (
        {found} if found else set()
    )


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(
            [(("backward",), 13), (("zero",), 14), (("backward", "step"), 2)],
            id="zeroed in between",
        ),
        pytest.param(
            [(("other step",), 13), (("backward",), 13), (("both",), 3)], id="idle until the third"
        ),
    ],
)
def test_what_one_steady_loop_leaves_unseen_is_not_what_the_next_one_looks_at(
    rounds: list[tuple[tuple[str, ...], int]],
) -> None:
    watch = train(rounds)
    with without_folding():
        plain = train(rounds)

    assert told(watch)
    assert counted(told(watch)) == counted(told(plain))


def test_two_hundred_steps_are_two_hundred_steps_again() -> None:
    watch = train([(("backward", "step"), 200)])

    (finding,) = replayed(watch)

    assert len(watch.tape) < 100
    assert (finding.count, finding.first_step, finding.last_step) == (199, 2, 200)


def test_two_steps_in_a_round_count_as_two() -> None:
    watch = train([(("zero", "backward", "step", "step"), 100)])

    (finding,) = replayed(watch)

    assert counted([finding]) == counted(watch.findings)
    assert (finding.count, finding.first_step, finding.last_step) == (100, 2, 200)


def test_what_is_ignored_in_a_steady_loop_is_ignored_to_its_end() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    with Watch(on_finding="record") as watch:
        with gradkeeper.ignore("GK101"):
            for _ in range(50):
                model(torch.randn(2, 3)).square().mean().backward()
                optimizer.step()
        optimizer.zero_grad()

    assert watch.findings == []
