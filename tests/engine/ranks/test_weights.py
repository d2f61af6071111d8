"""Weights that ranks hold in parts leave as one file, and arrive from one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.optim import Adam

from gradkeeper.cli import main
from gradkeeper.engine import Engine
from tests.engine import titan
from tests.engine.problems import classifier
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import credit_all, micro_batches_of, sharing, weights_of, wrapped

SIZES = [[4, 4], [4, 4], [4, 4], [4, 4]]


def export(rank: int, kind: str, folder: str, ranks: int) -> list[torch.Tensor]:
    model = wrapped(kind)
    engine = Engine(model, Adam(model.parameters()), checkpoint=f"{folder}/run", progress=False)
    share = micro_batches_of(rank // sharing(kind), SIZES[:ranks])
    for window in engine.windows(share, size=2):
        with window:
            credit_all(window, model)
    engine.save()
    files = engine.export(f"{folder}/live")
    assert files == [f"{folder}/live/model.safetensors"]
    engine.export(f"{folder}/shards", shard_bytes=300)
    engine.export(f"{folder}/dcp", to="dcp")
    return weights_of(model)


def assert_same(file: Path, weights: list[torch.Tensor]) -> None:
    found = load_file(file)
    names = [name for name, _ in classifier().named_parameters()]
    assert list(found) == names
    assert all(
        torch.equal(found[name], weight) for name, weight in zip(names, weights, strict=True)
    )


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "tp"])
def test_ranks_leave_with_one_file(two_ranks: Pool, tmp_path: Path, kind: str) -> None:
    weights, other = two_ranks.run(export, kind, str(tmp_path), 2)
    out = tmp_path / "saved"

    assert main(["checkpoint", "export", str(tmp_path / "run"), "-o", str(out)]) == 0

    assert all(torch.equal(a, b) for a, b in zip(weights, other, strict=True))
    assert_same(tmp_path / "live" / "model.safetensors", weights)
    assert_same(out / "model.safetensors", weights)
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 1
    # And one process arrives with them.
    assert main(["checkpoint", "import", str(tmp_path / "dcp"), str(tmp_path / "new")]) == 0


@pytest.mark.parametrize("kind", ["hsdp", "fsdp+tp"])
def test_groups_of_ranks_leave_with_one_file(four_ranks: Pool, tmp_path: Path, kind: str) -> None:
    weights = four_ranks.run(export, kind, str(tmp_path), 4)[0]
    out = tmp_path / "saved"

    assert main(["checkpoint", "export", str(tmp_path / "run"), "-o", str(out)]) == 0

    assert_same(tmp_path / "live" / "model.safetensors", weights)
    assert_same(out / "model.safetensors", weights)


def starting(rank: int, kind: str, folder: str) -> list[torch.Tensor]:
    model = wrapped(kind)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert titan.manager_of(model, folder, initial_load_path=f"{folder}/dcp").load()
    return weights_of(model)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_torchtitan_shards_what_ranks_left_with(
    two_ranks: Pool, four_ranks: Pool, tmp_path: Path, ranks: int
) -> None:
    pytest.importorskip(titan.MODULE)
    weights = two_ranks.run(export, "fsdp", str(tmp_path), 2)[0]

    pool = two_ranks if ranks == 2 else four_ranks
    for found in pool.run(starting, "fsdp", str(tmp_path)):
        assert all(torch.equal(a, b) for a, b in zip(found, weights, strict=True))


def refused(rank: int, kind: str, folder: str) -> str:
    model = wrapped(kind)
    engine = Engine(model, Adam(model.parameters()), progress=False)
    try:
        engine.export(folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def test_what_the_writer_is_refused_all_ranks_are(two_ranks: Pool, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"another's")

    first, second = two_ranks.run(refused, "fsdp", str(tmp_path))

    assert first.startswith("WriteError: ")
    assert "holds weights already" in first
    assert second.startswith("WriteError: rank 0 failed: ")
    assert (tmp_path / "model.safetensors").read_bytes() == b"another's"


def arrive(rank: int, kind: str, folder: str) -> Any:
    model = wrapped(kind)
    optimizer = Adam(model.parameters())
    engine = Engine(model, optimizer, checkpoint=folder, progress=False)
    assert engine.resume()
    moments = [optimizer.state[p]["exp_avg"] for p in model.parameters()]
    whole = [m.full_tensor() if hasattr(m, "full_tensor") else m for m in moments]
    return weights_of(model), whole


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_ranks_arrive_with_one_file(two_ranks: Pool, tmp_path: Path, kind: str) -> None:
    model = classifier()
    optimizer = Adam(model.parameters())
    model(torch.ones(2, 6)).square().mean().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, tmp_path / "theirs.pt")
    assert main(["checkpoint", "import", str(tmp_path / "theirs.pt"), str(tmp_path / "run")]) == 0

    for weights, moments in two_ranks.run(arrive, kind, str(tmp_path / "run")):
        expected = [optimizer.state[p]["exp_avg"] for p in model.parameters()]
        assert all(torch.equal(a, b) for a, b in zip(weights, weights_of(model), strict=True))
        assert all(torch.equal(a, b) for a, b in zip(moments, expected, strict=True))
