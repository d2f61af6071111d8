"""The books of several ranks on one page."""

from dataclasses import replace

import pytest

from gradkeeper.model import Event
from gradkeeper.model import events as ev
from gradkeeper.report.statement import measures
from gradkeeper.report.statement.contents import Lane
from tests.report.statement.telling import adopted, at, told, unfolded, window


def of_rank(rank: int, events: list[Event]) -> list[Event]:
    return [replace(event, rank=rank) for event in events]


def synced(events: list[Event]) -> list[Event]:
    return [replace(one, synced=True) if isinstance(one, ev.Backward) else one for one in events]


def steps(first: int, last: int) -> list[Event]:
    return [
        ev.Measure(site=at(7), optimizer="optimizer", step=step, loss=1 / step)
        for step in range(first, last + 1)
    ]


def test_ranks_that_did_the_same_share_a_lane() -> None:
    tape = [adopted(), *(window() * 3)]

    statement = told([event for rank in range(4) for event in of_rank(rank, tape)])

    assert statement.lanes == [Lane("optimizer", (0, 1, 2, 3))]
    assert len(unfolded(statement)) == 3
    assert statement.backwards == 12


def test_a_rank_that_did_otherwise_has_a_lane_of_its_own_beside_them() -> None:
    usual = [adopted(), *(window() * 3)]
    odd = [adopted(), *window(), *window(2), *window()]

    statement = told([*of_rank(0, usual), *of_rank(1, odd), *of_rank(2, usual)])

    assert statement.lanes == [Lane("optimizer", (0, 2)), Lane("optimizer", (1,))]
    assert [shape.lane for shape in unfolded(statement)] == [0, 1] * 3


def test_repetitions_of_ranks_go_side_by_side_as_far_as_both_go() -> None:
    def repeated(times: int) -> list[Event]:
        again = ev.Again(
            site=at(7), length=len(window()), times=times, optimizers=("optimizer",), lines=(at(6),)
        )
        return [adopted(), *(window() * 12), again, ev.Close(site=at(9))]

    statement = told([*of_rank(0, repeated(8)), *of_rank(1, repeated(5))])

    assert [shape.lane for shape in unfolded(statement)] == [0, 1] * 17 + [0] * 3


def test_what_ranks_share_is_measured_on_the_first_of_them() -> None:
    tape = [adopted(), *steps(1, 3), *(window() * 3)]

    statement = told([*of_rank(0, tape), *of_rank(1, tape)])

    (curve,) = measures.curves(statement)
    assert (curve["where"], curve["x"]) == ("rank 0", [0, 1, 2])


def test_where_ranks_part_the_windows_of_all_are_marked() -> None:
    usual = synced([adopted(), *(window() * 5)])
    third: list[Event] = [
        *synced(window()[:-1]),
        ev.Zero(site=at(8), accounts=("model",), waived=True),
    ]
    odd = [*synced([adopted(), *(window() * 2)]), *third, *synced(window() * 2)]
    did = ("stepped after 1 backward call", "took no step after 1 backward call")
    parted = ev.Digest(site=at(7), rank=1, ranks=did, exchange=3)

    statement = told([*of_rank(0, usual), parted, *of_rank(1, odd)])

    pinned = [(shape.lane, len(shape.pins)) for shape in unfolded(statement)]
    assert [one.rule for one in statement.findings] == ["GK503"]
    assert pinned == [(0, 0), (1, 0), (0, 0), (1, 0), (0, 1), (1, 1), (0, 0), (1, 0), (0, 0)]


def test_a_window_that_parts_leaves_its_repetitions_alone() -> None:
    again = ev.Again(
        site=at(7), length=len(window()), times=5, optimizers=("optimizer",), lines=(at(6),)
    )
    tape = [*synced([adopted(), *(window() * 12)]), again]
    did = ("skipped its step after 1 backward call", "stepped after 1 backward call")
    parted = [ev.Digest(site=at(7), rank=0, ranks=did, exchange=exchange) for exchange in (11, 14)]

    statement = told([*of_rank(0, tape), *parted])

    assert [len(shape.pins) for shape in unfolded(statement)] == [0] * 10 + [1] + [0] * 6


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((), ""),
        ((3,), "rank 3"),
        ((0, 1), "ranks 0 and 1"),
        ((0, 1, 2, 3), "ranks 0 to 3"),
        ((0, 2, 5), "ranks 0, 2 and 5"),
    ],
)
def test_a_lane_names_its_ranks(ranks: tuple[int, ...], words: str) -> None:
    assert Lane("optimizer", ranks).where == words
