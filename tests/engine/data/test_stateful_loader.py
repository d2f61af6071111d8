"""Loaders that know their own place: used as they are."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader

from gradkeeper.checkpoint.errors import UnkeepableError
from gradkeeper.engine.data import feed_of
from gradkeeper.engine.errors import PositionError
from tests.checkpoint.same import same
from tests.engine.data.interrupting import Run, in_parts, kept, plainly
from tests.engine.data.loaders import ITEMS, Noisy, Owning, Stream

# torchdata 0.11 calls what torch 2.13 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


class Placed(IterableDataset[torch.Tensor]):
    """A stream with a state of its own, which draws, and starts anew at its end."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        place = 0 if worker is None else worker.id
        while self.at < 5:
            self.at += 1
            yield torch.tensor([place * 100 + self.at, random.random(), torch.rand(()).item()])
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Counting(Owning):
    """Items with a state of its own, and generators beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def __getitem__(self, index: int) -> torch.Tensor:
        self.read += 1
        return super().__getitem__(index) + self.read

    def state_dict(self) -> dict[str, int]:
        return {"read": self.read}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.read = state["read"]


def test_in_the_main_process_a_run_cut_after_any_batch_equals_the_plain_loop() -> None:
    def built() -> Any:
        return StatefulDataLoader(Noisy(), batch_size=2, shuffle=True)

    plain = plainly(built, epochs=2)

    for batches in range(1, len(plain)):
        assert same(in_parts(built, [batches], epochs=2), plain), batches
    assert same(in_parts(built, [2, 1, 1], epochs=2), plain)


SETS: dict[str, Callable[[], Any]] = {
    "items": Noisy,
    "items with a state": Counting,
    "stream with a state": Placed,
    "stream without one": Stream,
}


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}], ids=["leaving", "staying"])
@pytest.mark.parametrize("dataset", SETS.values(), ids=SETS)
def test_what_its_workers_draw_is_kept(dataset: Any, options: dict[str, Any]) -> None:
    def built() -> Any:
        return StatefulDataLoader(dataset(), batch_size=2, num_workers=2, **options)

    plain = plainly(built, epochs=2)

    length = len(plain) // 2
    for parts in ([2], [length], [length + 1]):
        assert same(in_parts(built, parts, epochs=2), plain), parts
    assert same(in_parts(built, [length], epochs=2, ended=True), plain)


def test_and_so_it_is_between_its_snapshots() -> None:
    def built() -> Any:
        return StatefulDataLoader(Placed(), batch_size=2, num_workers=1, snapshot_every_n_steps=2)

    plain = plainly(built, epochs=1)

    assert same(in_parts(built, [1], epochs=1), plain)


def test_out_of_order_is_refused() -> None:
    loader = StatefulDataLoader(Placed(), num_workers=1, in_order=False)

    with pytest.raises(PositionError, match="StatefulDataLoader with in_order=False hands out"):
        feed_of(loader).check()


def test_worker_init_fn_sees_the_users_dataset() -> None:
    def init(number: int) -> None:
        worker = get_worker_info()
        assert worker is not None
        assert isinstance(worker.dataset, Placed)

    feed = feed_of(StatefulDataLoader(Placed(), num_workers=1, worker_init_fn=init))

    assert len(list(feed.begin(0))) == 5


class Lazy(DataLoader[Any]):
    """As loaders of others are: it begins at its first batch, and counts what it has handed out."""

    def __init__(self, dataset: Any, **options: Any) -> None:
        super().__init__(dataset, **options)
        self.handed = 0
        self.start = 0

    def __iter__(self) -> Any:
        start, self.start, self.handed = self.start, 0, 0
        for number, batch in enumerate(super().__iter__()):
            self.handed = number + 1
            if number >= start:
                yield batch

    def state_dict(self) -> dict[str, int]:
        return {"handed": self.handed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.start = state["handed"]


class Quiet(Noisy):
    def drawn(self) -> list[float]:
        return []


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}], ids=["leaving", "staying"])
def test_a_loader_that_begins_at_its_first_batch_draws_nothing_twice(
    options: dict[str, Any],
) -> None:
    def built() -> Any:
        return Lazy(Quiet(), batch_size=2, num_workers=1, **options)

    plain = plainly(built, epochs=2)

    assert same(in_parts(built, [2], epochs=2), plain)


def test_workers_that_draw_are_refused_where_the_loaders_state_does_not_keep_it() -> None:
    run = Run(lambda: Lazy(Noisy(), batch_size=2, num_workers=1))
    run.go_on(epochs=1, most=2)

    with pytest.raises(PositionError, match="the workers of this Lazy draw random numbers"):
        run.save()


class Late(Quiet):
    """Makes its generator on first use."""

    def __init__(self) -> None:
        super().__init__()
        self.late: random.Random | None = None

    def drawn(self) -> list[float]:
        if self.late is None:
            self.late = random.Random(3)
        return [self.late.random()]


def test_a_generator_that_workers_make_on_first_use_is_seen() -> None:
    run = Run(lambda: Lazy(Late(), batch_size=2, num_workers=1))
    run.go_on(epochs=1, most=2)

    with pytest.raises(PositionError, match="draw random numbers"):
        run.save()


def test_one_that_is_made_in_the_main_process_is_kept() -> None:
    class Placing(Lazy):
        """Passes over what was handed out without reading it."""

        def __iter__(self) -> Any:
            start, self.start = self.start, 0
            for number in range(start, ITEMS):
                self.handed = number + 1
                yield self.dataset[number]

    def built() -> Any:
        return Placing(Late(), batch_size=1)

    plain = plainly(built, epochs=1)

    assert same(in_parts(built, [3], epochs=1), plain)


def test_the_users_functions_are_put_back_when_its_workers_have_started() -> None:
    loader = Lazy(Quiet(), batch_size=2, num_workers=1, collate_fn=torch.stack)
    feed = feed_of(loader)

    next(feed.begin(0))

    assert loader.collate_fn is torch.stack
    assert loader.worker_init_fn is None


class Own:
    """The least that a loader with state is."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Any:
        while self.position < 5:
            self.position += 1
            yield torch.tensor(self.position)
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


def test_anything_with_a_state_is_asked_for_it() -> None:
    plain = plainly(Own, epochs=2)

    for parts in ([1], [5], [2, 1], [6, 1]):
        assert same(in_parts(Own, parts, epochs=2), plain), parts


def test_an_epoch_that_ended_is_not_read_on() -> None:
    run = Run(Own)
    run.go_on(epochs=1)

    again = feed_of(Own())

    assert list(again.resume(run.save()[0])) == []
    assert len(list(again.begin(1))) == 5


def test_a_state_that_cannot_be_kept_is_named() -> None:
    class Odd(Own):
        def state_dict(self) -> dict[str, Any]:
            return {"position": object()}

    with pytest.raises(UnkeepableError, match=r"loader.*position.* is a object"):
        kept(feed_of(Odd()).state())
