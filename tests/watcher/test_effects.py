"""What is done in one go, for speed, is what its parts do one after the other."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradkeeper.watcher.effects import (
    BecameNone,
    Cleared,
    Credited,
    CreditedAgain,
    Emptied,
    Spent,
    Stepped,
)
from gradkeeper.watcher.gradients import Cohort, Mark

CHANGES = ("left alone", "never had one", "added to", "came", "replaced", "cleared")
changes = st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3)


class Seen:
    """Parameters in one account, and what has happened to each gradient since it was seen."""

    def __init__(self, changed: Sequence[str]) -> None:
        self.parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in changed]
        for parameter, change in zip(self.parameters, changed, strict=True):
            if change not in ("never had one", "came"):
                parameter.grad = torch.ones(2)
        self.cohort = Cohort("net", [Mark(parameter) for parameter in self.parameters])
        self.before = [parameter.grad for parameter in self.parameters]
        """Held, so that a new gradient is never taken for the old one."""
        for parameter, change in zip(self.parameters, changed, strict=True):
            if change == "added to":
                assert parameter.grad is not None
                parameter.grad += 1
            elif change in ("came", "replaced"):
                parameter.grad = torch.ones(2)
            elif change == "cleared":
                parameter.grad = None

    def known(self) -> tuple[object, ...]:
        """All that the watcher holds of it; of a gradient, whether it is the parameter's own."""
        cohort = self.cohort
        marks = []
        for mark, parameter in zip(cohort.marks, self.parameters, strict=True):
            own = None if mark.grad is None else (mark.grad() is parameter.grad, mark.version)
            marks.append((own, mark.weight_version))
        return cohort.fresh, cohort.spent, cohort.suspect, marks


@given(credited=changes, others=changes)
def test_a_credit_is_taken_again_where_all_of_its_members_and_no_others_were_credited(
    credited: list[str], others: list[str]
) -> None:
    mine, theirs = Seen(credited), Seen(others)
    expected = all(mark.is_credited() for mark in mine.cohort.marks) and not any(
        mark.is_credited() for mark in theirs.cohort.marks
    )
    before = mine.known(), theirs.known()

    taken = CreditedAgain([mine.cohort], [theirs.cohort]).apply()

    assert taken is expected
    if taken:
        the_long_way = Seen(credited)
        Credited([the_long_way.cohort]).apply()
        assert mine.known() == the_long_way.known()
    else:
        assert mine.known() == before[0]
    assert theirs.known() == before[1]


@given(changed=changes, waiting=st.integers(0, 2), spent=st.booleans())
def test_to_become_none_is_to_be_cleared_and_emptied(
    changed: list[str], waiting: int, spent: bool
) -> None:
    one_go, two = Seen(changed), Seen(changed)
    for seen in (one_go, two):
        seen.cohort.fresh, seen.cohort.spent = waiting, spent

    BecameNone([one_go.cohort]).apply()
    Cleared([two.cohort]).apply()
    Emptied([two.cohort]).apply()

    assert one_go.known() == two.known()
    assert all(mark.grad is None for mark in one_go.cohort.marks)


@pytest.mark.parametrize("zeroed_every", [1, 2, 100])
def test_others_are_looked_at_after_each_step_whether_or_not_it_is_zeroed(
    zeroed_every: int,
) -> None:
    cohort = Seen(["added to"] * 3).cohort
    cohort.look(closely=False)
    turns = []

    for step in range(1, 7):
        Spent([cohort], "optimizer").apply()
        Stepped([cohort]).apply()
        if step % zeroed_every == 0:
            BecameNone([cohort]).apply()
        assert cohort.few is not None
        turns += [cohort.marks.index(mark) for mark in cohort.few]

    assert set(turns) == {0, 1, 2}


@pytest.mark.parametrize("writes", [False, True])
def test_what_a_step_has_left_is_known_also_where_it_writes_into_gradients(writes: bool) -> None:
    seen = Seen(["never had one"])
    seen.parameters[0].grad = torch.ones(2)
    cohort = seen.cohort
    Credited([cohort]).apply()

    def step() -> None:
        Spent([cohort], "optimizer").apply()
        if writes:
            grad = seen.parameters[0].grad
            assert grad is not None
            grad += 1

    step()
    cohort.left_by_step()  # as long as it is looked at closely
    cohort.look(closely=False)
    step()
    Stepped([cohort]).apply()

    assert [mark.verdict() for mark in cohort.marks] == ["same"]
