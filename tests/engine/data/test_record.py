"""What is kept of a loader that draws from the process's generators does not grow with the run."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

from gradkeeper import rng
from gradkeeper.engine import Engine, EngineWarning
from gradkeeper.engine.data import feed_of
from gradkeeper.engine.data.mersenne import (
    Twister,
    advanced,
    generator_state,
    twister,
    words_between,
)
from tests.checkpoint.same import same


class Crops:
    """As nanoGPT's get_batch: random places of a text."""

    def __init__(self, batches: int = 10_000) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Tensor]:
        text = torch.arange(100.0)
        for _ in range(self._batches):
            places = torch.randint(0, 96, (4,))
            yield torch.stack([text[place : place + 4] for place in places]) / 100


class Buffered:
    """Whose hidden state depends on every number drawn so far."""

    def __iter__(self) -> Iterator[Tensor]:
        waiting = [float(one) for one in range(8)]
        for number in range(10_000):
            place = int(torch.randint(0, len(waiting), ()))
            value, waiting[place] = waiting[place], float(number % 50)
            yield torch.full((4, 4), value / 50) + random.random() + float(numpy.random.rand())


def draw_alike(batch: int) -> None:
    """As a model with dropout does: the same count each time."""
    torch.rand(7)


def draw_by_turns(batch: int) -> None:
    """As validation at times, and a seldom big noise: any count."""
    torch.rand(3 + batch % 4 * 5)
    random.random()
    if batch % 40 == 0:
        torch.randn(30_000)
        numpy.random.rand(3)


def read(loader: Any, batches: int, between: Callable[[int], None]) -> tuple[Any, list[Any]]:
    feed = feed_of(loader)
    source = feed.begin(0)
    found = []
    for batch in range(batches):
        found.append(next(source))
        between(batch)
    return feed, found


def size_of(value: Any) -> int:
    match value:
        case Tensor():
            return value.numel() * value.element_size()
        case dict():
            return sum(map(size_of, value.values()))
        case list() | tuple():
            return sum(map(size_of, value))
    return 8


@pytest.mark.parametrize("between", [draw_alike, draw_by_turns])
def test_the_record_of_a_long_run_is_as_short_as_that_of_a_short_one(
    between: Callable[[int], None],
) -> None:
    torch.manual_seed(0)
    short, _ = read(Crops(), 50, between)
    torch.manual_seed(0)

    long, _ = read(Crops(), 2000, between)

    assert size_of(long.state()) < size_of(short.state()) + 600


@pytest.mark.parametrize("make", [Crops, Buffered])
@pytest.mark.parametrize("between", [draw_alike, draw_by_turns])
def test_a_cut_run_reads_what_the_uninterrupted_one_does(
    make: Callable[[], Any], between: Callable[[int], None]
) -> None:
    def seed() -> None:
        torch.manual_seed(1)
        random.seed(2)
        numpy.random.seed(3)

    def kept() -> tuple[Any, ...]:
        return torch.get_rng_state(), random.getstate(), numpy.random.get_state()

    seed()
    _, whole = read(make(), 130, between)
    seed()
    feed, found = read(make(), 60, between)
    for cut in (90, 130):
        state, (torchs, pythons, numpys) = feed.state(), kept()
        feed = feed_of(make())
        source = feed.resume(state)
        torch.set_rng_state(torchs)
        random.setstate(pythons)
        numpy.random.set_state(numpys)
        for batch in range(len(found), cut):
            found.append(next(source))
            between(batch)

    assert same(found, whole)


class Stop(Exception):  # noqa: N818
    """In place of a kill."""


def train(folder: Path, windows: int, *, stop: int | None = None) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    engine = Engine(model, torch.optim.AdamW(model.parameters()), checkpoint=folder, progress=False)
    engine.resume()
    for window in engine.windows(Crops(4 * windows), size=4):
        with window:
            for x in window:
                if engine.steps["optimizer"] == stop:
                    raise Stop
                window.backward(model(x).square().mean(), weight=len(x))
        if window.step in (stop, windows):
            engine.save()
    return model


def weight_of(folder: Path) -> int:
    newest = max(folder.glob("save-*"))
    return sum(file.stat().st_size for file in newest.rglob("*") if file.is_file())


def test_checkpoints_of_such_a_run_stay_small_and_exact(tmp_path: Path) -> None:
    train(tmp_path / "short", 12)
    whole = train(tmp_path / "long", 500)
    with pytest.raises(Stop):
        train(tmp_path / "cut", 500, stop=200)

    again = train(tmp_path / "cut", 500)

    assert same(again.state_dict(), whole.state_dict())
    assert weight_of(tmp_path / "long") < weight_of(tmp_path / "short") + 1000


def test_states_that_follow_from_nothing_are_kept_whole_with_a_warning() -> None:
    def between(batch: int) -> None:
        torch.manual_seed(batch)

    with pytest.warns(EngineWarning, match="Give the loader a generator of its own"):
        read(Crops(), 205, between)


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (torch.Generator().manual_seed(3), lambda one, n: torch.rand(n, generator=one)),
        (random.Random(3), lambda one, n: one.getrandbits(32 * n) if n else 0),
        (numpy.random.RandomState(3), lambda one, n: one.bytes(4 * n) if n else 0),
        (
            numpy.random.Generator(numpy.random.MT19937(3)),
            lambda one, n: one.bytes(4 * n) if n else 0,
        ),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 3, 600, 624, 625, 5000, 100_000])
def test_a_distance_leads_from_one_state_to_the_other(
    generator: Any, draw: Callable[[Any, int], Any], count: int
) -> None:
    kind = rng.kind(generator)
    draw(generator, 1)
    before = twister(kind, rng.read(generator))
    draw(generator, count)
    state = rng.read(generator)
    after = twister(kind, state)

    assert before is not None
    assert after is not None
    assert words_between(before, after) == count
    found = advanced(before, count)
    assert generator_state(kind, Twister(found.words, found.place, after.rest)) == state


def test_a_generator_of_another_kind_has_no_distance() -> None:
    generator = numpy.random.default_rng(0)

    assert twister(rng.kind(generator), rng.read(generator)) is None
