"""Nothing is pickled: with pickle made to raise, everything works."""

import pickle
import random
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from gradkeeper.checkpoint import Store, WriteBehind
from gradkeeper.cli import main
from tests.checkpoint.no_pickle import forbid_pickle
from tests.checkpoint.same import same


@pytest.fixture
def no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_pickle(monkeypatch)


def state() -> dict[str, Any]:
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "python": random.getstate(),
        "numpy": numpy.random.get_state(),
        "torch": torch.get_rng_state(),
    }


@pytest.mark.usefixtures("no_pickle")
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_everything_works_without_pickle(where: str, tmp_path: Path) -> None:
    folder = str(tmp_path) if where == "disk" else f"memory://no-pickle/{tmp_path.name}"
    kept = state()
    store = Store(folder)

    store.save(kept)
    with WriteBehind(store) as writer:
        writer.save(kept)
    found = store.load()

    assert found is not None
    assert same(found.state, kept)
    assert main(["checkpoint", "show", folder]) == 0
    assert main(["checkpoint", "verify", folder]) == 0
    assert main(["checkpoint", "diff", f"{folder}/save-000001", f"{folder}/save-000002"]) == 0


@pytest.mark.usefixtures("no_pickle")
def test_the_trap_is_set() -> None:
    with pytest.raises(AssertionError, match="pickle was used"):
        torch.save({}, "never")
    with pytest.raises(AssertionError, match="pickle was used"):
        pickle.loads(b"never")
