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


class Timed:
    """Another order in each process, as a shuffle that takes its seed from the time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __iter__(self) -> Any:
        yield from torch.randperm(9, generator=torch.Generator().manual_seed(self.seed))


def test_other_batches_than_before_are_refused() -> None:
    seed_all(0)
    run = Run(lambda: Timed(1))
    run.go_on(epochs=1, most=3)
    saved = run.save()

    with pytest.raises(PositionError, match="Timed gives other batches than the 3 before the save"):
        Run(lambda: Timed(2)).load(saved)


class Stage:
    """A part of a pipeline that counts epochs, and shuffles by their number."""

    def __init__(self) -> None:
        self.epoch = -1

    def run(self) -> list[int]:
        self.epoch += 1
        order: list[int] = torch.randperm(
            5, generator=torch.Generator().manual_seed(self.epoch)
        ).tolist()
        return order


class Pipeline:
    def __init__(self) -> None:
        self.stages = [Stage()]

    def __iter__(self) -> Any:
        yield from self.stages[0].run()


def test_numbers_that_parts_of_a_pipeline_count_up_are_kept() -> None:
    plain = plainly(Pipeline, epochs=3)

    for batches in (2, 7, 12):
        assert same(in_parts(Pipeline, [batches], epochs=3), plain), batches
    assert same(in_parts(Pipeline, [5], epochs=3, ended=True), plain)


class Numbered(Stream):
    """As a stream of Hugging Face's: the user counts its epochs."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Any:
        for item in super().__iter__():
            yield item + 1000 * self.epoch


def test_the_epoch_of_a_dataset_is_kept_and_not_counted_up() -> None:
    dataset = Numbered()
    dataset.set_epoch(4)
    feed = feed_of(DataLoader(dataset))
    batches = feed.begin(0)
    next(batches)

    again = Numbered()
    rest = list(feed_of(DataLoader(again)).resume(feed.state()))

    assert again.epoch == 4
    assert len(rest) == len(list(batches))


class Clearing:
    """Holds something that is gone at the next batch."""

    def __init__(self) -> None:
        self.notes: dict[str, Any] = {"generator": None}

    def __iter__(self) -> Any:
        self.notes.clear()
        yield from (1, 2, 3)


def test_a_place_for_a_generator_may_go() -> None:
    plain = plainly(Clearing, epochs=1)

    assert same(in_parts(Clearing, [1], epochs=1), plain)
