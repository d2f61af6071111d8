"""Weights that ranks hold in parts leave as one file, and arrive from one."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, load_model
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam

from gradkeeper.cli import main
from gradkeeper.engine import Engine
from tests.engine import titan
from tests.engine.problems import classifier
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import (
    KINDS,
    credit_all,
    micro_batches_of,
    sharing,
    weights_of,
    wrapped,
)

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


# Memory: nobody holds the whole, but the one file that DCP is written from, which is mapped.


LAYERS, WIDTH = 24, 1200
MEGABYTES = LAYERS * WIDTH * WIDTH * 4 / 1e6


def large(kind: str) -> nn.Module:
    layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    if not kind.endswith("tp"):
        return wrapped(kind, layers)
    ranks = dist.get_world_size()
    plan: Any = {str(number): ColwiseParallel() for number in range(LAYERS)}
    if kind == "tp":
        return parallelize_module(layers, init_device_mesh("cpu", (ranks,)), plan)
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("dp", "tp"))
    parallelize_module(layers, mesh["tp"], plan)
    fully_shard(layers, mesh=mesh["dp"])
    return layers


def most_memory(rank: int, kind: str, folder: str) -> dict[str, float]:
    """Megabytes by which this process grew while it exported, beyond what it had."""
    model = large(kind)
    engine = Engine(model, SGD(model.parameters(), lr=0.1), checkpoint=f"{folder}/run")
    engine.save()
    found = {}
    for to, path in (("safetensors", "one.safetensors"), ("dcp", "dcp")):
        dist.barrier()
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
        before = megabytes("VmRSS")
        engine.export(f"{folder}/{path}", to=to)  # type: ignore[arg-type]
        found[to] = megabytes("VmHWM") - before
    return found


def megabytes(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) / 1000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fsdp", "tp", "hsdp", "fsdp+tp"])
def test_ranks_export_without_holding_it_twice(
    two_ranks: Pool, four_ranks: Pool, tmp_path: Path, kind: str
) -> None:
    pool = four_ranks if kind in ("hsdp", "fsdp+tp") else two_ranks

    first, *others = pool.run(most_memory, kind, str(tmp_path))

    assert (tmp_path / "one.safetensors").stat().st_size > MEGABYTES * 1e6
    # What torch needs to gather a tensor was 40 to 75 here, whatever the model's size.
    assert first["safetensors"] < 0.8 * MEGABYTES
    assert first["dcp"] < 1.7 * MEGABYTES  # the mapped file counts, though memory may drop it
    assert all(grown < 0.8 * MEGABYTES for other in others for grown in other.values())


# Tied weights, and a model of transformers


class Words(nn.Module):
    """A table of words that is its own output layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(12, 6)
        self.inner = nn.Linear(6, 6)
        self.head = nn.Linear(6, 12, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(torch.tanh(self.inner(self.words(x))))
        return found


def export_tied(rank: int, kind: str, folder: str) -> torch.Tensor:
    model = Words()
    wrapper: Any = DistributedDataParallel(model) if kind == "ddp" else fully_shard(model)
    engine = Engine(wrapper, Adam(wrapper.parameters()), checkpoint=f"{folder}/run", progress=False)
    for window in engine.windows([torch.arange(6) + 3 * rank] * 2):
        with window:
            for x in window:
                window.backward(wrapper(x).square().mean())
    engine.save()
    engine.export(f"{folder}/live.safetensors")
    engine.export(f"{folder}/dcp", to="dcp")
    return weights_of(wrapper)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_tied_is_written_once(two_ranks: Pool, tmp_path: Path, kind: str) -> None:
    words = two_ranks.run(export_tied, kind, str(tmp_path))[0]
    saved = str(tmp_path / "saved.safetensors")

    assert main(["checkpoint", "export", str(tmp_path / "run"), "-o", saved]) == 0

    for file in (tmp_path / "live.safetensors", saved):
        assert list(load_file(file)) == ["words.weight", "inner.weight", "inner.bias"]
        model = Words()
        assert not any(load_model(model, file))  # nothing missing, nothing unexpected
        assert torch.equal(model.head.weight, words)
    state = Words().state_dict()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        dcp_load(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert torch.equal(state["head.weight"], words)


def export_transformer(rank: int, folder: str) -> torch.Tensor:
    model = language_model()
    for block in model.transformer.h:
        fully_shard(block)
    fully_shard(model)
    engine = Engine(model, Adam(model.parameters()), checkpoint=f"{folder}/run", progress=False)
    ids = torch.arange(20).reshape(2, 10) + rank
    for window in engine.windows([ids] * 3):
        with window:
            for x in window:
                window.backward(model(input_ids=x, labels=x).loss)
    engine.save()
    engine.export(f"{folder}/live", shard_bytes=5000)
    model.eval()
    logits: torch.Tensor = model(input_ids=torch.arange(10)[None]).logits
    return logits.detach()


def language_model() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 40, "n_positions": 16}
    torch.manual_seed(0)
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.slow
def test_from_pretrained_reads_what_ranks_left_with(two_ranks: Pool, tmp_path: Path) -> None:
    model = language_model()
    logits = two_ranks.run(export_transformer, str(tmp_path))[0]
    saved = tmp_path / "saved"

    assert main(["checkpoint", "export", str(tmp_path / "run"), "-o", str(saved)]) == 0

    for folder in (tmp_path / "live", saved):
        model.config.save_pretrained(folder)
        found, report = type(model).from_pretrained(folder, output_loading_info=True)
        found.eval()
        assert not report["missing_keys"]
        assert not report["unexpected_keys"]
        assert torch.equal(found(input_ids=torch.arange(10)[None]).logits, logits)


# torchtitan


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


# Arriving


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


def save_by_recipe(rank: int, kind: str, folder: str) -> tuple[list[torch.Tensor], Any]:
    """As torch's own tutorial of DCP does: each rank saves its part."""
    model = wrapped(kind)
    optimizer = Adam(model.parameters())
    model(torch.ones(2, 6)).square().mean().backward()
    optimizer.step()
    state, moments = get_state_dict(model, optimizer)
    dcp_save({"app": {"model": state, "optim": moments}}, checkpoint_id=folder)
    found = [optimizer.state[p]["exp_avg"] for p in model.parameters()]
    return weights_of(model), [m.full_tensor() for m in found]


@pytest.mark.parametrize("kind", ["fsdp", "tp"])
def test_what_ranks_saved_by_torchs_recipe_arrives_on_any_number(
    one_rank: Pool, two_ranks: Pool, three_ranks: Pool, tmp_path: Path, kind: str
) -> None:
    weights, moments = two_ranks.run(save_by_recipe, kind, str(tmp_path / "theirs"))[0]

    assert main(["checkpoint", "import", str(tmp_path / "theirs"), str(tmp_path / "run")]) == 0

    for pool, wrapper in ((one_rank, "plain"), (two_ranks, kind), (three_ranks, "fsdp")):
        for found, their_moments in pool.run(arrive, wrapper, str(tmp_path / "run")):
            assert all(torch.equal(a, b) for a, b in zip(found, weights, strict=True))
            assert all(torch.equal(a, b) for a, b in zip(their_moments, moments, strict=True))
