"""A loader that knows its own place: torchdata's StatefulDataLoader, litdata's, MosaicML's, or
anything alike.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import DataLoader

from gradkeeper.engine.data.feed import BatchCount, Handing, count_of, given, kept
from gradkeeper.engine.data.fingerprint import fingerprint_of
from gradkeeper.engine.data.generators import RandomSources
from gradkeeper.engine.data.libraries import (
    begins_anew_at_the_end,
    ends_twice,
    state_of_loader,
)
from gradkeeper.engine.data.samplers import numbers, set_numbers
from gradkeeper.engine.data.signature import length_of, signature_of
from gradkeeper.engine.data.worker_draws import DrawWatch, keeping_draws, keeps_draws
from gradkeeper.engine.errors import PositionError
from gradkeeper.torch_private import Undo, make_quietly


class StatedFeed:
    def __init__(self, loader: Iterable[Any]) -> None:
        users: Any = loader
        self._users = users
        self._loader = keeping_draws(users) if keeps_draws(loader) else users
        self._is_anothers = isinstance(loader, DataLoader) and not keeps_draws(loader)
        self._watch: DrawWatch | None = None
        if self._is_anothers and users.num_workers:
            self._watch = DrawWatch(users)
        self._undo: list[Undo] = []
        """What is to be done when the loader's iterator is made."""
        self._sources = RandomSources({"loader": loader})
        self._count = BatchCount(ended=True)
        self._source: Iterator[Any] | None = None
        """None where there is nothing left to ask."""

    @property
    def length(self) -> int | None:
        return length_of(self._users)

    @property
    def signature(self) -> dict[str, Any]:
        return signature_of(self._users)

    def check(self) -> None:
        with_workers = isinstance(self._users, DataLoader) and self._users.num_workers > 0
        if with_workers and not self._users.in_order:
            raise PositionError(
                f"a {type(self._users).__qualname__} with in_order=False hands out batches as they "
                "happen to come, so no run is like another and none can go on exactly: set "
                "in_order=True"
            )

    def begin(self, epoch: int) -> Iterator[Any]:
        self._count = BatchCount(epoch)
        self._start()
        return Handing(self._count, self._take)

    def state(self) -> dict[str, Any]:
        self.check()
        if self._watch is not None and self._watch.drawn:
            raise PositionError(
                f"the workers of this {type(self._users).__qualname__} draw random numbers, which "
                "its state_dict() does not keep: a resumed run would draw others. Draw in the "
                "training loop, seed each item's generator by something in the item, or set "
                "num_workers=0"
            )
        state = state_of_loader(self._loader)
        digest, epochs = fingerprint_of(state), numbers(self._users)
        self._sources.look_again()
        own = kept(self._sources.read_own())
        return {
            **self._count.state(),
            "digest": digest,
            "loader": state,
            "epochs": epochs,
            "generators": own,
        }

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        raise PositionError(
            f"{type(self._users).__qualname__} keeps its own place, which is that of one rank "
            "among another number of them: go on with as many ranks as there were"
        )

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        self._count = count_of(state)
        set_numbers(self._users, state["epochs"])
        # Before `iter`: StatefulDataLoader reads it there and nowhere else.
        self._loader.load_state_dict(state["loader"])
        self._made()
        over = self._count.ended or self._is_read_out()
        if self._draws_again(over=over):
            self._undo.append(make_quietly(self._loader, self._mark))
        if not over:
            self._start()
        elif self._count.epoch >= 0 and ends_twice(self._users):
            self._pass_over_the_end()
        else:
            self._source = None
        # None in checkpoints that are older.
        self._sources.write(given(state.get("generators", {})))
        return Handing(self._count, self._take)

    def release(self) -> None:
        self._source = None
        self._made()

    def _start(self) -> None:
        if self._watch is not None:
            self._undo.append(self._watch.attach())
        self._source = iter(self._loader)

    def _take(self) -> Any:
        if self._source is None:
            raise StopIteration
        try:
            return next(self._source)
        finally:
            self._made()

    def _made(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _mark(self) -> Undo:
        reading = self._sources.read()
        return lambda: self._sources.write(reading)

    def _draws_again(self, *, over: bool) -> bool:
        """Whether an iterator will be made, and draw, that the run before the save had already."""
        if not isinstance(self._loader, DataLoader) or self._count.epoch < 0:
            return False
        if over:
            # Workers that stay are the same in the next epoch; a StatefulDataLoader makes one
            # iterator to see that the epoch was over, and then another.
            return self._loader.persistent_workers or not self._is_anothers
        # Many begin at their first batch, after the generators were set to their state at the save.
        return self._is_anothers

    def _is_read_out(self) -> bool:
        """All is handed out, and the loader was not asked once more."""
        if self._count.ended or not begins_anew_at_the_end(self._users):
            return False
        return self.length is not None and self._count.batch >= self.length

    def _pass_over_the_end(self) -> None:
        rest = sum(1 for _ in self._loader)
        if rest:
            raise PositionError(
                f"{type(self._users).__qualname__} has {rest} batches more in an epoch that was "
                "read to its end before the save: build it with the same data"
            )
