"""Lists of batches, and what is read like one."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from gradkeeper.engine.data import feed_of
from tests.checkpoint.same import same
from tests.engine.data.interrupting import Run, in_parts, plainly


class Counted(Sequence[torch.Tensor]):
    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(2)
        self.read: list[int] = []

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: Any) -> Any:
        if number >= 4:
            raise IndexError(number)
        self.read.append(number)
        return torch.rand(2, generator=self.generator) + torch.rand(2)


class Old:
    """Iterable by number alone."""

    def __getitem__(self, number: int) -> int:
        if number > 4:
            raise IndexError(number)
        return number


@pytest.mark.parametrize(
    "make",
    [lambda: [torch.ones(1), torch.zeros(2)], lambda: (1, 2, 3), lambda: range(5), Counted, Old],
    ids=["list", "tuple", "range", "sequence", "old"],
)
def test_a_run_cut_after_any_batch_equals_the_plain_loop(make: Any) -> None:
    plain = plainly(make, epochs=2)

    for batches in range(len(plain)):
        assert same(in_parts(make, [batches], epochs=2), plain), batches


def test_batches_behind_are_not_read() -> None:
    first, second = Counted(), Counted()
    run, again = Run(lambda: first), Run(lambda: second)
    run.go_on(epochs=1, most=3)

    again.load(run.save())
    again.go_on(epochs=1)

    assert second.read == [3]


def test_an_end_that_was_met_stays_met() -> None:
    feed, again = feed_of([1, 2]), feed_of([1, 2])
    assert list(feed.begin(0)) == [1, 2]

    assert list(again.resume(feed.state())) == []
    assert list(again.begin(1)) == [1, 2]
