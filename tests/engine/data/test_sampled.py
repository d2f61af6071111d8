"""A DataLoader in the main process: the oracle is a plain loop over it."""

import pytest

from tests.checkpoint.same import same
from tests.engine.data.interrupting import in_parts, plainly
from tests.engine.data.loaders import MAPPED, Make


def length(make: Make) -> int:
    return len(plainly(lambda: make(None), epochs=1)) - 1


@pytest.mark.parametrize("make", MAPPED.values(), ids=MAPPED)
def test_an_uninterrupted_feed_equals_the_plain_loop(make: Make) -> None:
    plain = plainly(lambda: make(None), epochs=3)

    assert same(in_parts(lambda: make(None), [], epochs=3), plain)


@pytest.mark.parametrize("make", MAPPED.values(), ids=MAPPED)
def test_a_run_cut_after_any_batch_equals_the_plain_loop(make: Make) -> None:
    plain = plainly(lambda: make(None), epochs=3)

    for batches in range(len(plain)):
        assert same(in_parts(lambda: make(None), [batches], epochs=3), plain), batches


@pytest.mark.parametrize("make", MAPPED.values(), ids=MAPPED)
def test_a_run_cut_twice_in_an_epoch_equals_the_plain_loop(make: Make) -> None:
    plain = plainly(lambda: make(None), epochs=3)

    for parts in ([1, 1], [2, 0], [0, 1, 1], [length(make) + 1, 1]):
        assert same(in_parts(lambda: make(None), parts, epochs=3), plain), parts
