"""Tapes go from rank to rank through a store like torchrun's."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch.distributed

from gradkeeper.model import Site, Tape
from gradkeeper.model import events as ev
from gradkeeper.model.tape import read_file
from gradkeeper.watcher import ranks as sending

HERE = Site("train.py", 7, 5, "main")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    make: Any = vars(torch.distributed)["TCPStore"]
    one = make("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20))
    for name, value in {
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(one.port),
        "WORLD_SIZE": "4",
        "RANK": "2",
    }.items():
        monkeypatch.setenv(name, value)
    return one


def written(folder: Path, *events: ev.Event) -> Path:
    tape = Tape()
    for event in events:
        tape.record(event)
    tape.write(folder / "tape")
    return folder / "tape"


@pytest.mark.usefixtures("store")
def test_rank_0_receives_what_was_sent_and_waits_for_nobody(tmp_path: Path) -> None:
    step = ev.Step(site=HERE, rank=2, optimizer="optimizer")
    measure = ev.Measure(
        site=HERE, rank=2, optimizer="optimizer", step=1, loss=0.5, layers=("a",), norms=(1.0,)
    )
    bare = ev.Measure(site=HERE, rank=2, optimizer="optimizer", step=1, loss=0.5)

    assert sending.send(written(tmp_path, step, measure))

    (received,) = sending.received(tmp_path)
    assert list(read_file(received)) == [step, bare], "layers are told of rank 0 only"


@pytest.mark.usefixtures("store")
def test_a_tape_that_is_too_long_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MOST_BYTES", 1000)
    drawn = random.Random(0)
    steps = [
        ev.Step(site=HERE, optimizer="optimizer", loss=drawn.random(), norm=drawn.random())
        for _ in range(100)
    ]

    assert not sending.send(written(tmp_path, *steps))
    assert sending.received(tmp_path) == []


def test_without_a_launcher_there_is_nobody_to_send_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)

    assert sending.send(written(tmp_path))
    assert sending.received(tmp_path) == []
