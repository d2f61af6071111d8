"""Loaders that know their own place: used as they are."""

from typing import Any

import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from gradkeeper.checkpoint.errors import UnkeepableError
from gradkeeper.engine.data import feed_of
from tests.checkpoint.same import same
from tests.engine.data.interrupting import Run, in_parts, kept, plainly
from tests.engine.data.loaders import Noisy

# torchdata 0.11 calls what torch 2.13 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


class Still(Noisy):
    """Draws nothing: what workers draw, StatefulDataLoader does not keep."""

    def drawn(self) -> list[float]:
        return []


def test_in_the_main_process_a_run_cut_after_any_batch_equals_the_plain_loop() -> None:
    def built() -> Any:
        return StatefulDataLoader(Noisy(), batch_size=2, shuffle=True)

    plain = plainly(built, epochs=2)

    for batches in range(1, len(plain)):
        assert same(in_parts(built, [batches], epochs=2), plain), batches
    assert same(in_parts(built, [2, 1, 1], epochs=2), plain)


@pytest.mark.parametrize("staying", [False, True])
def test_with_workers_a_run_in_parts_has_the_batches_of_the_plain_loop(staying: bool) -> None:
    def built() -> Any:
        return StatefulDataLoader(
            Still(), batch_size=2, shuffle=True, num_workers=2, persistent_workers=staying
        )

    plain = plainly(built, epochs=2)

    for parts in ([2, 1], [6, 1]):
        cut = in_parts(built, parts, epochs=2)
        assert [batch[:, 0].tolist() for batch, _ in cut[:-1]] == [
            batch[:, 0].tolist() for batch, _ in plain[:-1]
        ]


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
