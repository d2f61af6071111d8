"""Loops that are left early, and loops that a resumed program never comes to."""

import gc
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.utils.data import DataLoader

from gradkeeper.engine import Engine
from gradkeeper.engine.data import feed_of
from tests.engine.data.loaders import MAPPED

BATCHES = [torch.ones(4, 2)] * 6


def build(folder: Path | None = None) -> tuple[nn.Module, Engine]:
    net = nn.Linear(2, 1)
    return net, Engine(net, SGD(net.parameters(), lr=0.1), checkpoint=folder)


@pytest.mark.parametrize("staying", [False, True])
def test_workers_end_with_a_loop_that_is_left(staying: bool) -> None:
    loader: Any = DataLoader(BATCHES, num_workers=2, persistent_workers=staying)  # type: ignore[arg-type]
    net, engine = build()
    others = set(multiprocessing.active_children())

    for window in engine.windows(loader, size=2):
        with window:
            for x in window:
                window.backward(net(x).mean())
        assert len(set(multiprocessing.active_children()) - others) == 2
        break

    assert not set(multiprocessing.active_children()) - others
    assert engine.steps == {"optimizer": 1}


@pytest.mark.parametrize("case", ["shuffled", "nested"])
def test_the_position_stays_known_when_a_feed_is_released(case: str) -> None:
    feed = feed_of(MAPPED[case](None, num_workers=2))
    batches = feed.begin(0)
    next(batches)
    before = feed.state()["digest"]

    feed.release()

    assert feed.state()["digest"] == before
    assert feed.state()["batch"] == 1


def epochs(folder: Path, first: int, last: int) -> int:
    """Steps taken by a program with a loop for each epoch, which saves in the last."""
    net, engine = build(folder)
    engine.resume()
    before = engine.steps["optimizer"]
    for epoch in range(first, last):
        for window in engine.windows(BATCHES, size=3):
            with window:
                for x in window:
                    window.backward(net(x).mean())
                    if epoch == last - 1:
                        engine.save()
    return engine.steps["optimizer"] - before


def test_a_program_that_starts_at_a_later_epoch_is_told_what_it_misses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert epochs(tmp_path, 0, 3) == 6

    steps = epochs(tmp_path, 2, 4)
    gc.collect()

    first, last = capsys.readouterr().err.splitlines()
    assert steps == 0
    assert "goes on from loop 3 of this program, and hands out nothing in those before" in first
    assert "ends after 2, with nothing trained: call engine.windows()" in last


def test_a_program_that_comes_to_its_place_is_told_where_it_is_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    epochs(tmp_path, 0, 2)

    assert epochs(tmp_path, 0, 4) == 4
    gc.collect()

    (line,) = capsys.readouterr().err.splitlines()
    assert "goes on from loop 2 of this program" in line


def test_a_program_that_only_wants_the_state_is_told_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    epochs(tmp_path, 0, 2)

    build(tmp_path)[1].resume()
    gc.collect()

    assert capsys.readouterr().err == ""
