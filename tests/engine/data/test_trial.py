"""assert_loader_resumes passes loaders that go on exactly, and names where one does not."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from gradkeeper.testing import assert_loader_resumes
from tests.engine.data.loaders import Chunks, Noisy, Owning

# torchdata 0.11 calls what torch 2.13 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
ITEMS = 5


class Placed(IterableDataset[torch.Tensor]):
    """A stream with a state, that draws."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        while self.at < ITEMS:
            self.at += 1
            yield torch.tensor([self.at, random.random()])
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


class OneAhead(Placed):
    """Forgets that the batch after the third was not handed out yet."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"] + (state["at"] == 3)


class Drawing(Placed):
    """Throws a number away when it is resumed."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        if self.at:
            random.random()
        while self.at < ITEMS:
            self.at += 1
            yield torch.tensor(self.at)
        self.at = 0


class Endless:
    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.rand(2)


RIGHT: dict[str, Callable[[], Any]] = {
    "list": lambda: [torch.rand(2) for _ in range(3)],
    "dataloader": lambda: DataLoader(Owning(items=5), batch_size=2, shuffle=True),
    "workers": lambda: DataLoader(Noisy(items=4), batch_size=2, shuffle=True, num_workers=1),
    "stateful": lambda: StatefulDataLoader(Noisy(items=4), batch_size=2, num_workers=1),
    "stream": lambda: StatefulDataLoader(Placed(), batch_size=2),
    "iterable": Placed,
    "read again": Chunks,
}


@pytest.mark.parametrize("build", RIGHT.values(), ids=RIGHT)
def test_a_loader_that_goes_on_exactly_passes(build: Callable[[], Any]) -> None:
    assert_loader_resumes(build())


def test_the_first_place_that_differs_is_named_with_what_came() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_loader_resumes(OneAhead())

    first, expected, came = str(failed.value).splitlines()
    assert first == (
        "resumed after 3 batches of epoch 1 in a new process, the loader gives something else as "
        "batch 4 of epoch 1:"
    )
    assert expected.startswith("  expected: tensor([4.")
    assert came.startswith("  came:     tensor([5.")


def test_random_numbers_that_the_loader_takes_from_the_training_are_found() -> None:
    with pytest.raises(AssertionError, match="leaves the program's random generators elsewhere"):
        assert_loader_resumes(Drawing())


def test_a_stream_that_forgets_what_it_was_shuffled_by_is_found() -> None:
    class Shuffled(Placed):
        def __iter__(self) -> Iterator[torch.Tensor]:
            order = random.sample(range(ITEMS), ITEMS)
            while self.at < ITEMS:
                self.at += 1
                yield torch.tensor(order[self.at - 1])
            self.at = 0

    with pytest.raises(AssertionError, match=r"after 1 batch of epoch 1.*batch 2 of epoch 1"):
        assert_loader_resumes(Shuffled())


def test_what_cannot_be_read_again_fails_with_the_reason() -> None:
    with pytest.raises(AssertionError, match="a generator can be read once only"):
        assert_loader_resumes(number for number in range(3))


def test_what_is_no_loader_and_builds_none_is_refused() -> None:
    with pytest.raises(TypeError, match="a loader, or a function that builds one, not 5"):
        assert_loader_resumes(5)  # type: ignore[arg-type]


def test_what_fails_on_resume_fails_with_its_reason() -> None:
    class Failing(Placed):
        def load_state_dict(self, state: dict[str, Any]) -> None:
            raise KeyError("position")

    with pytest.raises(
        AssertionError, match=r"resumed after 0 batches.*fails: KeyError: 'position'"
    ):
        assert_loader_resumes(Failing())


def test_a_seed_that_is_missing_is_found_where_each_process_builds_its_own() -> None:
    def unseeded() -> list[float]:
        return [random.SystemRandom().random() for _ in range(2)]

    assert_loader_resumes(unseeded())
    with pytest.raises(AssertionError, match="gives something else as batch 1 of epoch 1"):
        assert_loader_resumes(unseeded)


def test_of_a_loader_without_an_end_some_batches_are_read() -> None:
    assert_loader_resumes(Endless(), batches=3)

    with pytest.raises(ValueError, match="batches=0"):
        assert_loader_resumes(Endless(), batches=0)


@pytest.mark.parametrize("epochs", [0, 1.5, "2"])
def test_epochs_are_counted(epochs: Any) -> None:
    with pytest.raises(ValueError, match=r"epochs=.*: a whole number, and at least one"):
        assert_loader_resumes([1, 2], epochs=epochs)


def test_a_loader_that_hands_out_nothing_has_shown_nothing() -> None:
    with pytest.raises(AssertionError, match="hands out no batch"):
        assert_loader_resumes([])


def test_a_loader_that_fails_fails_with_its_reason() -> None:
    with pytest.raises(AssertionError, match="the loader cannot be read: ZeroDivisionError"):
        assert_loader_resumes(lambda: [1 // 0])


def test_the_generators_of_the_caller_stay_as_they_are() -> None:
    before = random.getstate(), torch.get_rng_state()

    assert_loader_resumes([1, 2])

    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_gradkeeper_alone_still_does_not_import_torch() -> None:
    code = "import sys, gradkeeper; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
