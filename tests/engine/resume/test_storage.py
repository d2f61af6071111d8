"""Where a run is saved to, and what may fail there."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import Adam
from torch.utils.data import DataLoader

from gradkeeper.checkpoint import Store
from gradkeeper.engine import Engine, loss_weights
from tests.checkpoint.no_pickle import forbid_pickle
from tests.engine.problems import classifier, rows, same


class Stop(Exception):  # noqa: N818
    """In place of a kill."""


def train(
    folder: object = None, *, workers: int = 0, on_device: bool = False, stop: int | None = None
) -> nn.Module:
    """Saves at each micro-step, in windows of four with a tail, and may stop after one of them."""
    torch.manual_seed(3)
    net = classifier(dropout=0.5)
    engine = Engine(net, Adam(net.parameters(), lr=0.01), checkpoint=folder)  # type: ignore[arg-type]
    if folder is not None:
        engine.resume()
    data: Any = list(zip(*rows(23), strict=True))
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=workers)
    count = 0
    for window in engine.windows(loader, size=4, epochs=2):
        with window:
            for x, y in window:
                weight = torch.tensor(float(len(y))) if on_device else len(y)
                window.backward(cross_entropy(net(x), y), weight=weight)
                count += 1
                if folder is not None:
                    engine.save()
                if count == stop:
                    raise Stop
    return net


def in_two(folder: object, **options: Any) -> nn.Module:
    """Stopped in mid-window, and gone on with."""
    with pytest.raises(Stop):
        train(folder, stop=9, **options)
    return train(folder, **options)


def test_a_url_is_a_folder_like_any_other(tmp_path: Path) -> None:
    assert same(in_two(f"memory://engine/{tmp_path.name}"), train())


@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_is_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    forbid_pickle(monkeypatch)

    assert same(in_two(tmp_path, workers=workers), train(workers=workers))


def test_weights_that_live_on_a_device_are_kept_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if this were no CPU, where weights are numbers.
    monkeypatch.setattr(loss_weights, "checked", lambda weight: weight)

    with pytest.raises(Stop):
        train(tmp_path, on_device=True, stop=9)
    saved = Store(tmp_path).load()

    assert saved is not None
    assert "least" in saved.state["window"]["weights"]  # what only a tally on a device has
    assert same(train(tmp_path, on_device=True), train(on_device=True))


FULL = """
import resource, sys, torch
from torch import nn
from gradkeeper import Engine
from gradkeeper.checkpoint import Store, WriteError

folder, every = sys.argv[1], int(sys.argv[2]) or None
net = nn.Linear(200, 200)
engine = Engine(net, torch.optim.SGD(net.parameters(), lr=0.1), checkpoint=folder, save_every=every)
try:
    for window in engine.windows([torch.ones(2, 200)] * 4):
        with window:
            for x in window:
                window.backward(net(x).mean())
        if not every:
            engine.save()
        if window.step == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
except WriteError as error:
    print(error)
again = Engine(net, torch.optim.SGD(net.parameters(), lr=0.1), checkpoint=folder)
print(again.resume(), again.steps["optimizer"])
"""


@pytest.mark.parametrize("every", [0, 1])
def test_a_full_disk_is_told_and_the_save_before_is_gone_on_from(
    tmp_path: Path, every: int
) -> None:
    command = [sys.executable, "-W", "error", "-c", FULL, str(tmp_path), str(every)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr
    failure, resumed = done.stdout.splitlines()
    assert "the checkpoint could not be written: File too large" in failure
    # The save that was being written behind may have been whole before the disk was full.
    assert resumed in (("True 1", "True 2") if every else ("True 2",))
