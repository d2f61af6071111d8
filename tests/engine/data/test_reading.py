"""Loaders whose place is found by reading up to it, and those that cannot be found again."""

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from gradkeeper.engine.data import feed_of
from gradkeeper.engine.errors import PositionError
from tests.checkpoint.same import same
from tests.engine.data.interrupting import Run, in_parts, plainly, seed_all
from tests.engine.data.loaders import Chunks, Custom, Noisy, Stream


def stream(**options: Any) -> Any:
    return DataLoader(Stream(), batch_size=2, **options)


def custom() -> Any:
    return Custom(Noisy(), batch_size=2, shuffle=True)


@pytest.mark.parametrize("make", [stream, custom, Chunks])
def test_a_run_cut_after_any_batch_equals_the_plain_loop(make: Any) -> None:
    plain = plainly(make, epochs=3)

    for batches in range(len(plain)):
        assert same(in_parts(make, [batches], epochs=3), plain), batches
    for parts in ([1, 1], [2, 0, 1]):
        assert same(in_parts(make, parts, epochs=3), plain), parts


@pytest.mark.parametrize("staying", [False, True])
def test_a_stream_read_by_workers_equals_the_plain_loop(staying: bool) -> None:
    def built() -> Any:
        return stream(num_workers=2, persistent_workers=staying)

    plain = plainly(built, epochs=3)

    for parts in ([2], [7, 1]):
        assert same(in_parts(built, parts, epochs=3), plain), parts


def test_reading_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    in_parts(Chunks, [2], epochs=1)

    said = "gradkeeper: reading 2 batches of Chunks again to find the place\n"
    assert capsys.readouterr().err == said


def test_a_loader_that_gives_fewer_batches_than_before_is_refused() -> None:
    seed_all(0)
    run = Run(Chunks)
    run.go_on(epochs=1, most=3)
    saved = run.save()

    class Fewer:
        rng = torch.Generator()

        def __init__(self) -> None:
            self.rng = Chunks().rng  # type: ignore[assignment]

        def __iter__(self) -> Any:
            return iter([1])

    with pytest.raises(
        PositionError, match="Fewer gives 1 batches where it gave 3 before the save"
    ):
        Run(Fewer).load(saved)


def test_reading_can_be_refused_before_anything_is_read() -> None:
    feed = feed_of(stream(), unstated="refuse")

    with pytest.raises(PositionError, match="DataLoader over Stream can be found only by reading"):
        feed.check()


@pytest.mark.parametrize("unstated", ["read", "refuse"])
def test_what_can_be_read_once_only_is_refused(unstated: Any) -> None:
    feed = feed_of((number for number in range(3)), unstated=unstated)

    with pytest.raises(PositionError, match="a generator can be read once only"):
        feed.check()


def test_without_a_save_an_iterator_can_still_be_read() -> None:
    feed = feed_of(iter([1, 2, 3]))

    assert list(feed.begin(0)) == [1, 2, 3]
