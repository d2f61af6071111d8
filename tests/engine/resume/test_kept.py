"""Checkpoints that an earlier version wrote, in mid-window, are gone on from.

kept/0.1.0.zip was written by `train(folder, kind, stop=5)` below, run with version 0.1.0.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from gradkeeper.engine import Engine

KEPT = Path(__file__).parent / "kept"


class Stop(Exception):  # noqa: N818
    """In place of a kill."""


class Crops:
    """Whose place is found by reading, and which draws from torch's own generator."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for _ in range(12):
            yield torch.randn(2, 3), torch.randn(2, 1)


def loader_of(kind: str) -> Any:
    if kind == "crops":
        return Crops()
    x, y = torch.arange(72.0).reshape(24, 3) / 72, torch.arange(24.0).reshape(24, 1) / 24
    return DataLoader(TensorDataset(x, y), 2, shuffle=True)


def train(folder: Path | None, kind: str, *, stop: int | None = None) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.2), nn.Linear(2, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    engine = Engine(model, optimizer, scheduler=scheduler, checkpoint=folder, progress=False)
    losses = engine.track("losses", [])
    if folder is not None:
        assert engine.resume() == (stop is None)
    count = 0
    for window in engine.windows(loader_of(kind), size=3, epochs=2):
        with window:
            for x, y in window:
                if count == stop:
                    raise Stop
                window.backward(mse_loss(model(x), y), weight=len(y))
                count += 1
                if stop is not None and count == stop - 1:
                    engine.save()
        losses.append(window.loss)
    return model, losses


@pytest.mark.filterwarnings("ignore:the checkpoint was saved with torch")
@pytest.mark.parametrize("kind", ["shuffled", "crops"])
@pytest.mark.parametrize("version", ["0.1.0"])
def test_a_run_that_an_earlier_version_saved_goes_on(
    version: str, kind: str, tmp_path: Path
) -> None:
    with zipfile.ZipFile(KEPT / f"{version}.zip") as kept:
        kept.extractall(tmp_path)

    model, losses = train(tmp_path / kind, kind)

    whole, expected = train(None, kind)
    # Another processor may round otherwise than the one that saved.
    torch.testing.assert_close(model.state_dict(), whole.state_dict())
    assert losses == pytest.approx(expected)
