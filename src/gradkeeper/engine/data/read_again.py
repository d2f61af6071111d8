"""Anything that can be iterated and cannot say where it is: its place is found by reading up to it,
and what is read is compared with what was read before.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from torch.utils.data import DataLoader

from gradkeeper.engine.data.feed import BatchCount, Handing, count_of, given, kept
from gradkeeper.engine.data.fingerprint import Fingerprint, content_of, fingerprint_of
from gradkeeper.engine.data.generators import RandomSources, holder, near
from gradkeeper.engine.data.random_calls import NO_CALLS, RandomCalls
from gradkeeper.engine.data.samplers import numbers, set_numbers
from gradkeeper.engine.data.signature import length_of, signature_of
from gradkeeper.engine.errors import PositionError

# What a person sees while batches are read once more: a bar in a terminal, else one line.


@contextmanager
def reading_again(loader: Any, batches: int) -> Iterator[Callable[[], object]]:
    """Gives what is to be called after each batch."""
    text = (
        f"gradkeeper: reading {batches} batches of {type(loader).__name__} again to find the place"
    )
    if not batches or sys.stderr is None:
        yield lambda: None
    elif sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(total=batches, desc=text, unit="batch") as bar:
            yield bar.update
    else:
        print(text, file=sys.stderr, flush=True)
        yield lambda: None


# The feed.


class ReadFeed:
    def __init__(self, loader: Iterable[Any], *, refusal: str = "") -> None:
        self._loader: Any = loader
        self._roots = {"loader": loader}
        self._refusal = refusal
        self._count = BatchCount(ended=True)
        # Workers that stay carry their random numbers on from epoch to epoch, and only reading it
        # all again brings new ones there.
        self._whole = any(inner.persistent_workers for inner in _loaders_within(loader))
        self._source: Iterator[Any] = iter(())
        self._history: list[list[Any]] = []
        """By epoch: how often a batch was asked for, and the numbers it is shuffled by."""
        self._first = counters(self._roots)
        self._sources = RandomSources(self._roots)
        self._begin_history()

    @property
    def length(self) -> int | None:
        return length_of(self._loader)

    @property
    def signature(self) -> dict[str, Any]:
        return signature_of(self._loader)

    def check(self) -> None:
        if self._refusal:
            raise PositionError(self._refusal)

    def begin(self, epoch: int) -> Iterator[Any]:
        if not (self._whole and self._history):
            self._begin_history()
        self._count = BatchCount(epoch)
        self._start()
        return Handing(self._count, self._take)

    def state(self) -> dict[str, Any]:
        self.check()
        self._sources.look_again()
        return {
            **self._count.state(),
            "digest": fingerprint_of([self._count.state(), self._begun]),
            "begun": kept(self._begun),
            "counted": dict(self._counted),
            "history": [list(epoch) for epoch in self._history],
            "content": str(self._behind),
            "replay": self._random_calls.state(),
            "generators": kept(self._sources.read_own()),
        }

    def shared_out(self, state: dict[str, Any], batch: int) -> dict[str, Any]:
        state = self._as_now(state)
        history = [[batch + state["ended"], epochs] for _, epochs in state["history"][-1:]]
        return state | {"batch": batch, "history": history, "content": None, "replay": NO_CALLS}

    def resume(self, state: dict[str, Any]) -> Iterator[Any]:
        self.check()
        self._count = count_of(state)
        state = self._as_now(state)
        self._begun = given(state["begun"])
        self._counted = dict(state["counted"])
        put_back(self._roots, self._first | self._counted)
        self._sources.write(self._begun)
        self._random_calls = RandomCalls(self._sources)
        self._random_calls.load(state["replay"])
        self._history = []
        self._behind = Fingerprint()
        self._read_again(state["history"])
        if state["content"] not in (None, str(self._behind)):
            raise PositionError(
                f"{type(self._loader).__qualname__} gives other batches than the "
                f"{self._count.batch} before the save: it was built with other data or another "
                "seed, or behind resume(), which puts random generators back, or it draws from "
                "something that starts anew in each process. Build it before resume(), and seed "
                "every shuffle in it (and test it: gradkeeper.testing.assert_loader_resumes)"
            )
        self._sources.write(given(state["generators"]))
        return Handing(self._count, self._take)

    def release(self) -> None:
        self._source = iter(())

    def _as_now(self, state: dict[str, Any]) -> dict[str, Any]:
        """0.1.0 kept how often a batch was asked for, and nothing of what the batches held."""
        if "counted" in state:
            return state
        history = [[asked, numbers(self._loader)] for asked in state["history"]]
        return state | {"counted": {}, "content": None, "history": history}

    def _begin_history(self) -> None:
        self._history = []
        self._behind = Fingerprint()
        """Of what was read since."""
        self._sources = RandomSources(self._roots)
        self._random_calls = RandomCalls(self._sources)
        self._begun = self._sources.read()
        self._counted = since(self._first, counters(self._roots))

    def _start(self) -> None:
        self._history.append([0, numbers(self._loader)])
        self._source = self._random_calls.call(lambda: iter(self._loader))

    def _take(self) -> Any:
        self._history[-1][0] += 1
        batch = self._random_calls.call(self._source.__next__)
        self._behind.add(content_of(batch))
        return batch

    def _read_again(self, history: list[list[Any]]) -> None:
        found = 0
        with reading_again(self._loader, sum(asked for asked, _ in history)) as told:
            for asked, epochs in history:
                set_numbers(self._loader, epochs)
                self._start()
                found = 0
                for _ in range(asked):
                    found += self._pass_over()
                    told()
        if found != self._count.batch:
            raise PositionError(
                f"{type(self._loader).__qualname__} gives {found} batches where it gave "
                f"{self._count.batch} before the save: it must give the same ones again"
            )

    def _pass_over(self) -> bool:
        try:
            self._take()
        except StopIteration:
            return False
        except Exception:
            return True  # as before the save, and counted as it was there
        return True


def _loaders_within(loader: Any) -> Iterator[DataLoader[Any]]:
    """Itself, or the stages of a pipeline such as webdataset's WebLoader."""
    stages = getattr(loader, "pipeline", None)
    for stage in (loader, *(stages if isinstance(stages, list) else ())):
        if isinstance(stage, DataLoader):
            yield stage


# Numbers that a loader's parts count up from epoch to epoch, such as the seed of a pipeline's
# shuffle: a new process begins an epoch with those that the one before it began it with.


Counted = dict[str, int]


def counters(roots: Mapping[str, Any]) -> Counted:
    """By name as `loader.dataset.pipeline[2].epoch`. The near ones, as with generators."""
    found: Counted = {}
    for name, thing, held in near(roots):
        own = getattr(thing, "__dict__", {})
        for place, part in held:
            if type(part) is int and place.removeprefix(f"{name}.") in own:
                found[place] = part
    return found


def since(first: Counted, now: Counted) -> Counted:
    """What has changed."""
    return {name: value for name, value in now.items() if first.get(name) != value}


def put_back(roots: Mapping[str, Any], wanted: Counted) -> None:
    now = counters(roots)
    for name, value in wanted.items():
        slot = None if now.get(name) == value else holder(roots, name)
        if slot is not None:
            # One that cannot be set is seen in what is read then.
            with suppress(AttributeError, TypeError, ValueError):
                slot.put(value)
