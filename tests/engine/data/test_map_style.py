"""A DataLoader in the main process: the oracle is a plain loop over it."""

from typing import Any

import pytest
from torch.utils.data import DataLoader, RandomSampler

from gradkeeper.engine.data import feed_of
from gradkeeper.engine.errors import PositionError
from tests.checkpoint.same import same
from tests.engine.data.interrupting import Run, in_parts, plainly, seed_all
from tests.engine.data.loaders import ITEMS, MAPPED, Failing, Make, Noisy


@pytest.mark.parametrize("make", MAPPED.values(), ids=MAPPED)
def test_a_feed_read_through_equals_the_plain_loop(make: Make) -> None:
    plain = plainly(lambda: make(None), epochs=3)

    assert same(in_parts(lambda: make(None), [], epochs=3), plain)


@pytest.mark.parametrize("make", MAPPED.values(), ids=MAPPED)
def test_a_run_cut_after_any_batch_equals_the_plain_loop(make: Make) -> None:
    plain = plainly(lambda: make(None), epochs=2)

    for batches in range(len(plain)):
        assert same(in_parts(lambda: make(None), [batches], epochs=2), plain), batches


@pytest.mark.parametrize("make", MAPPED.values(), ids=MAPPED)
def test_a_run_cut_several_times_in_an_epoch_equals_the_plain_loop(make: Make) -> None:
    plain = plainly(lambda: make(None), epochs=3)

    length = (len(plain) - 1) // 3
    for parts in ([1, 1], [2, 0], [0, 1, 1], [length + 1, 1]):
        assert same(in_parts(lambda: make(None), parts, epochs=3), plain), parts


def test_a_batch_that_failed_is_behind() -> None:
    def built() -> Any:
        return DataLoader(Failing(), batch_size=2)

    plain = plainly(built, epochs=2)

    for batches in (2, 3, 4):
        assert same(in_parts(built, [batches], epochs=2), plain)


def test_a_position_saved_after_the_end_goes_on_with_the_next_epoch() -> None:
    def built() -> Any:
        return MAPPED["generator"](None)

    plain = plainly(built, epochs=2)
    seed_all(0)
    run = Run(built)
    run.go_on(epochs=1)
    saved = run.save()

    again = Run(built)
    again.load(saved)
    again.go_on(epochs=2)

    assert same([*run.seen, *again.seen], plain[:-1])


def test_saving_draws_nothing_and_asks_for_nothing() -> None:
    def built() -> Any:
        return MAPPED["owning"](None)

    plain = plainly(built, epochs=1)
    seed_all(0)
    run = Run(built)

    for most in range(1, len(plain)):
        run.go_on(epochs=1, most=most)
        run.save()

    assert same(run.seen, plain[:-1])


def test_a_sampler_that_gives_other_indices_is_refused() -> None:
    seed_all(0)
    run = Run(lambda: DataLoader(Noisy(), sampler=[0, 1, 2, 3], batch_size=2))
    run.go_on(epochs=1, most=1)
    other = Run(lambda: DataLoader(Noisy(), sampler=[0, 2, 1, 3], batch_size=2))

    with pytest.raises(PositionError, match="BatchSampler gives other indices than those of the 1"):
        other.load(run.save())


def test_a_generator_that_is_gone_is_named() -> None:
    seed_all(0)
    run = Run(lambda: MAPPED["owning"](None))
    run.go_on(epochs=1, most=1)
    other = Run(lambda: MAPPED["shuffled"](None))

    with pytest.raises(PositionError, match=r"a generator at `dataset\.generator`"):
        other.load(run.save())


def test_batches_that_come_in_any_order_have_no_position() -> None:
    feed = feed_of(DataLoader(Noisy(), num_workers=1, in_order=False))

    with pytest.raises(PositionError, match="set in_order=True"):
        feed.check()


def test_two_places_have_two_digests_and_one_place_has_one() -> None:
    seed_all(0)
    run = Run(lambda: MAPPED["shuffled"](None))
    digests = []
    for most in (1, 2):
        run.go_on(epochs=1, most=most)
        digests.append(run.feed.state()["digest"])
    again = Run(lambda: MAPPED["shuffled"](None))

    again.load(run.save())

    assert digests[0] != digests[1]
    assert again.feed.state()["digest"] == digests[1]


def test_an_endless_sampler_has_a_place_and_no_length() -> None:
    class Endless(RandomSampler):
        def __iter__(self) -> Any:
            while True:
                yield from super().__iter__()

        def __len__(self) -> int:
            raise TypeError("endless")

    def built() -> Any:
        return DataLoader(Noisy(), sampler=Endless(range(ITEMS)), batch_size=4)

    seed_all(0)
    whole = Run(built)
    whole.go_on(epochs=1, most=12)
    seed_all(0)
    first = Run(built)
    first.go_on(epochs=1, most=7)
    second = Run(built)
    second.load(first.save())
    second.go_on(epochs=1, most=5)

    assert whole.feed.length is None
    assert same([*first.seen, *second.seen], whole.seen)
