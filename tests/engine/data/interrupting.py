"""The oracle: a plain `for batch in loader`, beside the same run cut into processes.

Between batches random numbers are drawn, as dropout does: what a loader draws is interleaved.
"""

import gc
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch

from gradkeeper.checkpoint.codec import decode, encode
from gradkeeper.engine.data import Feed, feed_of

Seen = list[Any]
"""Batches, what was drawn between them, and the generators at the end."""


def seed_all(seed: int) -> None:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def generators() -> tuple[Any, Any, Any]:
    return random.getstate(), numpy.random.get_state(), torch.get_rng_state()


def set_generators(states: tuple[Any, Any, Any]) -> None:
    random.setstate(states[0])
    numpy.random.set_state(states[1])
    torch.set_rng_state(states[2])


def training() -> list[float]:
    return [random.random(), float(numpy.random.rand()), torch.rand(3).sum().item()]


def attempts(batches: Iterator[Any]) -> Iterator[Any]:
    """Batches, or what was said of one that failed."""
    while True:
        try:
            yield next(batches)
        except StopIteration:
            return
        except ValueError as error:
            said = str(error).strip().splitlines()[-1]
        else:
            continue
        # torch's own frames keep the loader's iterator in a cycle, to die in a later worker.
        gc.collect()
        yield said


def plainly(make: Callable[[], Any], *, epochs: int, seed: int = 0) -> Seen:
    seed_all(seed)
    loader = make()
    seen: Seen = []
    for _ in range(epochs):
        for batch in attempts(iter(loader)):
            seen.append([batch, training()])
    seen.append(generators())
    return seen


def kept(state: Any) -> Any:
    """Through what a checkpoint holds of it."""
    encoded = encode(state)
    tensors = {name: one.clone() for name, one in encoded.tensors.items()}
    return decode(json.loads(json.dumps(encoded.tree)), tensors)


class Run:
    """The run under test: one process of it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.feed: Feed = feed_of(make())
        self.seen: Seen = []
        self.epoch = -1
        self.batches: Iterator[Any] = iter(())

    def save(self) -> Any:
        return kept(self.feed.state()), self.epoch, generators()

    def load(self, saved: Any) -> None:
        state, self.epoch, states = saved
        self.batches = self.feed.resume(state)
        set_generators(states)

    def end_epoch(self) -> None:
        """Asks once more, where all is handed out."""
        assert next(self.batches, None) is None

    def go_on(self, *, epochs: int, most: int | None = None) -> bool:
        """Whether it came to the end of all epochs."""
        while most is None or len(self.seen) < most:
            batch = next(attempts(self.batches), None)
            if batch is not None:
                self.seen.append([batch, training()])
            elif self.epoch + 1 < epochs:
                self.epoch += 1
                self.batches = self.feed.begin(self.epoch)
            else:
                return True
        return False


def in_parts(
    make: Callable[[], Any],
    parts: Sequence[int],
    *,
    epochs: int,
    seed: int = 0,
    ended: bool = False,
) -> Seen:
    """The same in as many processes as there are parts and one, each of so many batches.

    `ended`: each part is whole epochs, and has come to their end.
    """
    seed_all(seed)
    run = Run(make)
    seen: Seen = []
    for part in parts:
        run.go_on(epochs=epochs, most=part)
        seen += run.seen
        if ended:
            run.end_epoch()
        saved = run.save()
        seed_all(99)
        training()
        run = Run(make)
        run.load(saved)
    run.go_on(epochs=epochs)
    return [*seen, *run.seen, generators()]
