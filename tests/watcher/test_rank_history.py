"""What a rank did between exchanges, and where ranks parted."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.watcher.ranks import RankHistory, digests, read_runs

BACKWARD, STEP = Site("train.py", 3), Site("train.py", 4)


def window(backwards: int, *, step: bool | None = True) -> list[ev.Event]:
    """Micro-batches of which the last one is exchanged; `step` None: none is asked for."""
    credits: list[ev.Event] = [
        ev.Backward(site=BACKWARD, accounts=("weights",), synced=place == backwards - 1)
        for place in range(backwards)
    ]
    if step is None:
        return credits
    return [*credits, ev.Step(site=STEP, optimizer="optimizer", taken=step)]


def tally(*windows: list[ev.Event]) -> RankHistory:
    tally = RankHistory()
    for events in windows:
        for event in events:
            tally.take(event)
    tally.close()
    return tally


def told(*tallies: RankHistory) -> list[tuple[str, ...]]:
    return [event.ranks for event in digests(list(tallies))]


def test_ranks_that_do_the_same_are_not_told() -> None:
    same = [window(4), window(4, step=False), window(2)]

    assert told(tally(*same), tally(*same)) == []


def test_a_rank_that_takes_no_step_is_told_at_the_others_line() -> None:
    (event,) = digests([tally(window(1), window(1)), tally(window(1), window(1, step=None))])

    assert event.ranks == ("stepped after 1 backward call", "took no step after 1 backward call")
    assert (event.site, event.rank) == (STEP, 1)


def test_a_rank_that_skips_is_told() -> None:
    (event,) = digests([tally(window(2)), tally(window(2)), tally(window(2, step=False))])

    assert event.ranks[2] == "skipped its step after 2 backward calls"
    assert event.rank == 2


def two_optimizers(*steps: str) -> list[ev.Event]:
    """An exchanged backward, and steps of some of those who own what it credits."""
    opened: list[ev.Event] = [
        ev.Adopt(site=BACKWARD, optimizer=name, accounts=(f"weights of {name}",))
        for name in ("body", "head", "probe")
    ]
    exchanged = ev.Backward(
        site=BACKWARD, accounts=("weights of body", "weights of head"), synced=True
    )
    own = ev.Backward(site=BACKWARD, accounts=("weights of probe",))
    taken = [ev.Step(site=Site("train.py", 9), optimizer=name, taken=True) for name in steps]
    return [*opened, exchanged, own, *taken]


def test_a_rank_that_leaves_out_one_of_two_steps_is_told() -> None:
    (event,) = digests([tally(two_optimizers("body", "head")), tally(two_optimizers("body"))])

    assert event.ranks == (
        "took 2 steps after 1 backward call",
        "stepped after 1 backward call",
    )


def test_what_a_rank_trains_for_itself_is_its_own_affair() -> None:
    both = two_optimizers("body", "head")
    with_probe = two_optimizers("body", "head", "probe")

    assert told(tally(with_probe, with_probe), tally(both, both)) == []
    assert told(tally(two_optimizers("probe")), tally(two_optimizers())) == []


def test_an_optimizer_that_is_built_after_the_backward_is_compared() -> None:
    *opened, exchanged, _, step = two_optimizers("body")

    tallies = tally([exchanged, *opened, step]), tally([exchanged, *opened])

    assert told(*tallies) == [
        ("stepped after 1 backward call", "took no step after 1 backward call")
    ]


def test_parts_of_a_shared_account_are_shared() -> None:
    split = ev.Split(site=BACKWARD, account="weights of head", into=("one", "other"))
    exchanged = ev.Backward(site=BACKWARD, accounts=("one",), synced=True)
    step = ev.Step(site=STEP, optimizer="head", taken=True)
    adopted = two_optimizers()[:3]

    tallies = (
        tally([*adopted, split, exchanged, step]),
        tally([*adopted, split, exchanged]),
    )

    assert told(*tallies) == [
        ("stepped after 1 backward call", "took no step after 1 backward call")
    ]


def test_a_rank_that_ran_out_of_data_is_compared_as_far_as_it_went() -> None:
    assert told(tally(*[window(1)] * 3), tally(*[window(1)] * 5)) == []


def test_without_an_exchange_there_is_nothing_to_compare() -> None:
    alone = tally([ev.Backward(site=BACKWARD, accounts=("weights",))], window(0))

    assert alone.runs == []


KINDS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([True, False, None])), max_size=12)


@given(
    before=KINDS, period=KINDS.filter(bool), times=st.integers(1, 5), after=KINDS, cut=st.integers()
)
def test_repeated_windows_are_the_same_as_written_out(
    before: list[tuple[int, bool | None]],
    period: list[tuple[int, bool | None]],
    times: int,
    after: list[tuple[int, bool | None]],
    cut: int,
) -> None:
    """Wherever in a window the repetition is noticed."""
    round_ = [event for size, step in period for event in window(size, step=step)]
    place = cut % len(round_)
    lead = [event for size, step in before for event in window(size, step=step)]
    tail = [event for size, step in after for event in window(size, step=step)]
    short = RankHistory()
    for event in [*lead, *round_, *round_, *round_[:place]]:
        short.take(event)
    short.repeat(len(period), times)
    for event in [*round_[place:], *tail]:
        short.take(event)
    short.close()

    long = tally(lead, *[round_] * (3 + times), tail)

    assert list(short) == list(long)
    assert list(read_runs(json.loads(json.dumps(short.runs)))) == list(long)
