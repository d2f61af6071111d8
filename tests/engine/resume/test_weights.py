"""Leaving with one's weights, and arriving with those of others. The oracles are the libraries that
read and write them: safetensors, torch.distributed.checkpoint, transformers, torchtitan."""

import io
import json
import os
import pickle
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_model
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save
from torch.distributed.checkpoint.stateful import Stateful
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import StepLR

from gradkeeper.checkpoint import UnkeepableError, WriteError
from gradkeeper.cli import main
from gradkeeper.engine import (
    Engine,
    EngineError,
    EngineWarning,
    ResumeError,
    SetupError,
    UnknownOwnerError,
)
from tests.engine import titan

BATCHES = [torch.arange(8), torch.arange(2, 10)] * 3


class Tied(nn.Module):
    """A table of words that is its own output layer; and a buffer, a scalar, a strided weight."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 12, bias=False)
        self.head.weight = self.words.weight
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.turned = nn.Parameter(torch.randn(3, 5).t())

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.norm(self.words(x)))
        return found * self.scale + self.turned.sum()


def trained(folder: Path | None = None, **options: Any) -> tuple[Any, Any, Engine]:
    torch.manual_seed(0)
    model = options.pop("model", None) or Tied()
    optimizer = Adam(model.parameters(), lr=0.01)
    engine = Engine(model, optimizer, checkpoint=folder, progress=False, **options)
    for window in engine.windows(BATCHES):
        with window:
            for x in window:
                window.backward(model(x).square().mean())
    if folder is not None:
        engine.save()
    return model, optimizer, engine


def equal(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


# Leaving


def test_safetensors_reads_what_was_exported(tmp_path: Path) -> None:
    model, _, engine = trained()

    files = engine.export(tmp_path / "out")

    assert files == [str(tmp_path / "out" / "model.safetensors")]
    fresh = Tied()
    missing, unexpected = load_model(fresh, files[0])
    assert not missing
    assert not unexpected
    assert equal(model, fresh)
    fresh = Tied()
    fresh.load_state_dict(load_file(files[0]), strict=False)  # the tied name is there once
    assert equal(model, fresh)


def test_tied_weights_are_written_once(tmp_path: Path) -> None:
    _, _, engine = trained()

    (file,) = engine.export(tmp_path / "model.safetensors")

    with safe_open(file, "pt") as found:
        assert "head.weight" not in found.keys()  # noqa: SIM118
        assert found.metadata() == {"format": "pt", "head.weight": "words.weight"}


def test_weights_above_a_size_are_cut_as_hugging_face_does(tmp_path: Path) -> None:
    model, _, engine = trained()

    files = engine.export(tmp_path, shard_bytes=150)

    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    names = sorted(set(index["weight_map"].values()))
    assert [Path(file).name for file in files] == [*names, "model.safetensors.index.json"]
    assert names[0] == f"model-00001-of-{len(names):05}.safetensors"
    assert len(names) > 1
    loaded: dict[str, Tensor] = {}
    for name in names:
        part = load_file(tmp_path / name)
        assert {index["weight_map"][key] for key in part} == {name}
        loaded |= part
    total = sum(value.numel() * value.itemsize for value in loaded.values())
    assert index["metadata"] == {"total_size": total}
    expected = {k: v for k, v in model.state_dict().items() if k != "head.weight"}
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], expected[name]) for name in expected)


def test_a_later_export_leaves_nothing_of_the_one_before(tmp_path: Path) -> None:
    _, _, engine = trained()
    engine.export(tmp_path, shard_bytes=150)
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(WriteError, match="holds weights already: choose another path, or replace"):
        engine.export(tmp_path)
    engine.export(tmp_path, overwrite=True)

    assert sorted(os.listdir(tmp_path)) == ["config.json", "model.safetensors"]


def test_wrappers_leave_no_trace_in_the_names(tmp_path: Path) -> None:
    inner = nn.Sequential(nn.Embedding(12, 4), nn.Linear(4, 2))
    model: Any = torch.compile(inner, backend="eager")
    _, _, engine = trained(model=model)

    (file,) = engine.export(tmp_path / "w.safetensors")

    assert list(load_file(file)) == list(inner.state_dict())


def test_dcp_reads_what_was_exported(tmp_path: Path) -> None:
    model, _, engine = trained()

    engine.export(tmp_path / "dcp", to="dcp")

    assert equal(model, from_dcp(tmp_path / "dcp"))
    assert os.listdir(tmp_path) == ["dcp"]  # nothing is left beside it


def from_dcp(folder: Path) -> nn.Module:
    fresh = Tied()
    state = fresh.state_dict()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        dcp_load(state, checkpoint_id=folder, no_dist=True)
    fresh.load_state_dict(state)
    return fresh


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_torchtitan_starts_from_what_was_exported(tmp_path: Path) -> None:
    pytest.importorskip(titan.MODULE)
    model, _, engine = trained()
    engine.export(tmp_path / "out", to="dcp")
    fresh = Tied()

    assert titan.manager_of(fresh, tmp_path, initial_load_path=str(tmp_path / "out")).load()

    assert equal(model, fresh)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_run_goes_on_from_what_torchtitan_saved_last(tmp_path: Path) -> None:
    pytest.importorskip(titan.MODULE)
    theirs, _, _ = trained()
    manager = titan.manager_of(theirs, tmp_path, last_save_model_only=True)
    assert manager.save(3, last_step=True)

    step = str(tmp_path / "checkpoint" / "step-3")
    assert main(["checkpoint", "import", step, str(tmp_path / "run")]) == 0
    with pytest.warns(EngineWarning, match="nothing of the optimizer, which starts anew"):
        model, _, _ = arrived(tmp_path / "run")

    assert equal(model, theirs)


@pytest.mark.parametrize("to", ["safetensors", "dcp"])
def test_a_save_is_exported_as_the_live_model_is(
    tmp_path: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _, engine = trained(tmp_path / "run")
    out = tmp_path / "out"

    command = ["checkpoint", "export", str(tmp_path / "run"), "--to", to, "-o", str(out)]
    assert main(command) == 0

    assert "save-000001: 8 tensors, 1 tied to others" in capsys.readouterr().out
    if to == "dcp":
        assert equal(model, from_dcp(out))
    else:
        (live,) = engine.export(tmp_path / "live")
        assert (out / "model.safetensors").read_bytes() == Path(live).read_bytes()


@pytest.mark.slow
def test_from_pretrained_reads_what_was_exported(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=2,
        n_head=2,
        n_embd=16,
        vocab_size=40,
        n_positions=16,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config)
    engine = Engine(model, Adam(model.parameters()), progress=False, checkpoint=tmp_path / "run")
    x = torch.arange(20).reshape(2, 10)
    for window in engine.windows([x] * 3):
        with window:
            for ids in window:
                window.backward(model(input_ids=ids, labels=ids).loss)
    engine.save()
    model.eval()
    expected = model(input_ids=x).logits
    save = str(tmp_path / "run")

    engine.export(tmp_path / "live")
    engine.export(tmp_path / "shards", shard_bytes=5000)
    main(["checkpoint", "export", save, "-o", str(tmp_path / "saved"), "--shard-bytes", "5000"])

    for folder in ("live", "shards", "saved"):
        config.save_pretrained(tmp_path / folder)
        found, report = transformers.GPT2LMHeadModel.from_pretrained(
            tmp_path / folder, output_loading_info=True
        )
        found.eval()
        assert not report["unexpected_keys"]
        assert torch.equal(found(input_ids=x).logits, expected)
        assert found.lm_head.weight is found.transformer.wte.weight


LARGE = """
import resource, sys
from gradkeeper.cli import main
import torch, torch.distributed.checkpoint, gradkeeper.engine.engine
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert main(["checkpoint", "export", sys.argv[1], "-o", sys.argv[2]]) == 0
print("kilobytes", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_an_export_holds_one_tensor_at_a_time(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(1000, 1500, bias=False) for _ in range(16)))
    engine = Engine(model, SGD(model.parameters(), lr=0.1), checkpoint=tmp_path / "run")
    engine.save()
    command = [sys.executable, "-c", LARGE, str(tmp_path / "run"), str(tmp_path / "out")]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    megabytes = int(done.stdout.split()[-1]) / 1000
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > 96e6
    assert megabytes < 60  # of 96; one tensor has 6


def test_what_cannot_be_exported_is_refused_with_the_reason(tmp_path: Path) -> None:
    model, _, engine = trained()

    with pytest.raises(SetupError, match="to is 'safetensors' or 'dcp', not 'onnx'"):
        engine.export(tmp_path / "a", to="onnx")  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="shard_bytes is a number of bytes from 1 on, not 0"):
        engine.export(tmp_path / "a", shard_bytes=0)
    with pytest.raises(UnknownOwnerError, match="there is no owner 'G'"):
        engine.export(tmp_path / "a", owner="G")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(WriteError, match="is a file: weights go to a folder, or to one"):
        engine.export(tmp_path / "notes.txt", overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    model.register_buffer("odd", torch.zeros(2, dtype=torch.complex128))
    with pytest.raises(UnkeepableError, match="odd is of type complex128, which safetensors has"):
        engine.export(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_what_is_no_tensor_is_left_behind_and_told(tmp_path: Path) -> None:
    class Counting(nn.Linear):
        def get_extra_state(self) -> Any:
            return {"calls": 3}

        def set_extra_state(self, state: Any) -> None: ...

    model = Counting(2, 1)
    engine = Engine(model, SGD(model.parameters(), lr=0.1))

    with pytest.warns(EngineWarning, match="_extra_state of the model's state is no tensor"):
        (file,) = engine.export(tmp_path / "w.safetensors")

    assert list(load_file(file)) == ["weight", "bias"]


def test_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    _, _, engine = trained()
    engine.export(tmp_path / "w.safetensors")
    before = (tmp_path / "w.safetensors").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(WriteError, match="could not be written: File too large"):
            engine.export(tmp_path / "w.safetensors", overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert (tmp_path / "w.safetensors").read_bytes() == before
    assert os.listdir(tmp_path) == ["w.safetensors"]


def test_one_of_several_owners_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"G": nn.Linear(2, 3), "D": nn.Linear(3, 1)}
    optimizers = {name: SGD(model.parameters(), lr=0.1) for name, model in models.items()}
    engine = Engine(models, optimizers, checkpoint=tmp_path / "run")
    engine.save()
    save, out = str(tmp_path / "run"), str(tmp_path / "D.safetensors")

    assert main(["checkpoint", "export", save, "-o", out]) == 2
    assert "it holds the models of G, D: say which, with --owner" in capsys.readouterr().err
    assert main(["checkpoint", "export", save, "-o", out, "--owner", "E"]) == 2
    assert "it holds no model of 'E'; there are: G, D" in capsys.readouterr().err
    assert main(["checkpoint", "export", save, "-o", out, "--owner", "D"]) == 0

    assert torch.equal(load_file(out)["weight"], models["D"].weight)


def test_a_damaged_save_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path / "run")
    path = tmp_path / "run" / "save-000001" / "tensors.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)

    assert main(["checkpoint", "export", str(tmp_path / "run"), "-o", str(tmp_path / "a")]) == 1

    assert "does not match its checksum" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


# Arriving


def recipe(folder: Path, kind: str, model: nn.Module, optimizer: Any, **others: Any) -> Path:
    """As people write it."""
    path = folder / f"theirs-{kind}"
    if kind == "torch":
        torch.save({"net": model.state_dict(), "opt": optimizer.state_dict(), **others}, path)
        return path
    ours, theirs = get_state_dict(model, optimizer)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        state = {"app": ours, "optim": theirs, **others}
        dcp_save(state, checkpoint_id=path, no_dist=True)
    return path


def arrived(folder: Path, **options: Any) -> tuple[Any, Any, Engine]:
    torch.manual_seed(9)
    model = options.pop("model", None) or Tied()
    optimizer = Adam(model.parameters(), lr=0.5)
    scheduler = StepLR(optimizer, 2) if options.pop("scheduled", False) else None
    engine = Engine(model, optimizer, scheduler=scheduler, checkpoint=folder, progress=False)
    assert engine.resume()
    return model, optimizer, engine


@pytest.mark.parametrize("kind", ["torch", "dcp"])
def test_a_run_goes_on_from_what_another_script_saved(tmp_path: Path, kind: str) -> None:
    theirs, their_optimizer, _ = trained()
    path = recipe(tmp_path, kind, theirs, their_optimizer, epoch=3)

    assert main(["checkpoint", "import", str(path), str(tmp_path / "run")]) == 0
    model, optimizer, engine = arrived(tmp_path / "run")

    assert equal(model, theirs)
    assert optimizer.param_groups[0]["lr"] == 0.01
    for ours, other in zip(model.parameters(), theirs.parameters(), strict=True):
        for name, value in their_optimizer.state[other].items():
            assert torch.equal(optimizer.state[ours][name], value)
    # And then it is a run like any other.
    step(engine, model)
    engine.save()
    again, _, _ = arrived(tmp_path / "run")
    assert equal(again, model)


def step(engine: Engine, model: nn.Module) -> None:
    for window in engine.windows(BATCHES[:2]):
        with window:
            for x in window:
                window.backward(model(x).square().mean())


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_names_of_wrappers_are_understood(tmp_path: Path, prefix: str) -> None:
    theirs, _, _ = trained()
    torch.save({prefix + k: v for k, v in theirs.state_dict().items()}, tmp_path / "w.pt")

    assert main(["checkpoint", "import", str(tmp_path / "w.pt"), str(tmp_path / "run")]) == 0
    with pytest.warns(EngineWarning, match="nothing of the optimizer, which starts anew"):
        model, _, _ = arrived(tmp_path / "run")

    assert equal(model, theirs)


def test_the_scheduler_comes_along(tmp_path: Path) -> None:
    theirs, optimizer, _ = trained()
    scheduler = StepLR(optimizer, 2)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    path = recipe(tmp_path, "torch", theirs, optimizer, sched=scheduler.state_dict())
    assert main(["checkpoint", "import", str(path), str(tmp_path / "run")]) == 0

    _, _, engine = arrived(tmp_path / "run", scheduled=True)

    assert engine.state_dict()["owners"]["optimizer"]["scheduler"]["last_epoch"] == 3


class App(Stateful):
    """Model and optimizer in one, as torch's own recipe for DCP has it."""

    def __init__(self, model: nn.Module, optimizer: Any) -> None:
        self.parts = model, optimizer

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(*self.parts)
        return {"model": model, "optim": optimizer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


def save_as_app(model: nn.Module, optimizer: Any, path: Path) -> None:
    dcp_save({"app": App(model, optimizer)}, checkpoint_id=path, no_dist=True)


def save_as_lightning(model: nn.Module, optimizer: Any, path: Path) -> None:
    state = {"state_dict": model.state_dict(), "optimizer_states": [optimizer.state_dict()]}
    torch.save({**state, "lr_schedulers": [], "epoch": 3}, path)


def save_beside_the_rest(model: nn.Module, optimizer: Any, path: Path) -> None:
    """The model's tensors on top, and the optimizer flat: torchtitan, at each interval."""
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    flat = get_optimizer_state_dict(model, optimizer, options=options)
    progress = {"step": torch.tensor(3), "losses": torch.ones(4)}
    state = {**model.state_dict(), "optimizer": flat, "train_state": {"seen": progress}}
    dcp_save(state, checkpoint_id=path, no_dist=True)


def save_with_generators(model: nn.Module, optimizer: Any, path: Path) -> None:
    drawn = {"cpu": torch.get_rng_state()}
    best = {"loss": torch.tensor(0.5)}
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**states, "rng": drawn, "best": best}, path)


def save_in_files_of_their_own(model: nn.Module, optimizer: Any, path: Path) -> None:
    """As transformers' Trainer lays out a checkpoint; Accelerate says .bin."""
    path.mkdir()
    save_model(model, str(path / "model.safetensors"))
    torch.save(optimizer.state_dict(), path / "optimizer.pt")


RECIPES = [
    save_as_app,
    save_as_lightning,
    save_beside_the_rest,
    save_with_generators,
    save_in_files_of_their_own,
]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("save", RECIPES)
def test_however_a_recipe_wraps_them_model_and_optimizer_are_found(
    tmp_path: Path, save: Callable[[nn.Module, Any, Path], None]
) -> None:
    theirs, their_optimizer, _ = trained()
    save(theirs, their_optimizer, tmp_path / "theirs")

    assert main(["checkpoint", "import", str(tmp_path / "theirs"), str(tmp_path / "run")]) == 0
    model, optimizer, _ = arrived(tmp_path / "run")

    assert equal(model, theirs)
    assert optimizer.param_groups[0]["lr"] == 0.01
    for ours, other in zip(model.parameters(), theirs.parameters(), strict=True):
        moments = their_optimizer.state[other]
        assert optimizer.state[ours].keys() == moments.keys()
        assert all(torch.equal(optimizer.state[ours][name], moments[name]) for name in moments)


@pytest.mark.parametrize("shard_bytes", [150, 10**6])
def test_what_was_exported_arrives_again(tmp_path: Path, shard_bytes: int) -> None:
    theirs, _, engine = trained()
    engine.export(tmp_path / "out", shard_bytes=shard_bytes)

    assert main(["checkpoint", "import", str(tmp_path / "out"), str(tmp_path / "run")]) == 0
    with pytest.warns(EngineWarning, match="nothing of the optimizer, which starts anew"):
        model, _, _ = arrived(tmp_path / "run")

    assert equal(model, theirs)


def test_weights_that_are_not_whole_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, engine = trained()
    files = [Path(file) for file in engine.export(tmp_path / "out", shard_bytes=150)]
    command = ["checkpoint", "import", str(tmp_path / "out"), str(tmp_path / "run")]
    content = files[0].read_bytes()

    files[0].write_bytes(content[:-4])
    assert main(command) == 2
    assert f"{files[0]} is no whole file of safetensors" in capsys.readouterr().err
    files[0].write_bytes(content[:20])
    assert main(command) == 2
    assert f"{files[0]} is no whole file of safetensors" in capsys.readouterr().err
    files[0].unlink()
    assert main(command) == 2
    assert f"names {files[0].name}, which is not there" in capsys.readouterr().err
    files[-1].write_text("[]")
    assert main(command) == 2
    assert "is no index of weights" in capsys.readouterr().err
    files[-1].unlink()
    assert main(command) == 2
    assert "no .metadata, no model.safetensors" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("run-by-pickle",)


@pytest.mark.parametrize("kind", ["torch", "dcp", "dcp metadata", "beside weights"])
def test_what_would_need_pickle_is_refused_and_not_run(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model, optimizer, _ = trained()
    path = tmp_path / "theirs"
    if kind == "torch":
        torch.save({"net": model.state_dict(), "args": Evil()}, path)
    elif kind == "beside weights":
        save_in_files_of_their_own(model, optimizer, path)
        torch.save({"args": Evil()}, path / "scheduler.pt")
    else:
        path = recipe(tmp_path, "dcp", model, optimizer, args=Evil() if kind == "dcp" else 1)
    if kind == "dcp metadata":
        (path / ".metadata").write_bytes(pickle.dumps(Evil()))

    assert main(["checkpoint", "import", str(path), str(tmp_path / "run")]) == 2

    told = capsys.readouterr().err
    if kind == "dcp metadata":
        assert "it asks for posix.mkdir, which is not made here" in told
    else:
        assert "needs pickle, which may run whatever its author wrote: it asks for " in told
        assert "posix.mkdir. Where you trust it, " in told
    assert not (tmp_path / "run-by-pickle").exists()
    assert not (tmp_path / "run").exists()


def torch_bytes(thing: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(thing, stream)
    return stream.getvalue()


STATE = nn.Linear(2, 1).state_dict()
BAD = {
    "no file of torch": (b"hello", "is no whole file of torch.save\n"),
    "an empty one": (b"", "is no whole file of torch.save\n"),
    "its beginning": (torch_bytes(nn.Linear(2, 1).state_dict())[:300], "is no whole file of "),
    "a list": (torch_bytes([1, 2]), "holds a list, and no dict of states"),
    "no model": (torch_bytes({"epoch": 3}), "holds no model's state: a dict of tensors by name"),
    "two models": (
        torch_bytes({"net": STATE, "ema": STATE}),
        "several that may be the model: 'net', 'ema'; say which, with --model NAME",
    ),
}


@pytest.mark.parametrize(("content", "told"), BAD.values(), ids=BAD)
def test_what_is_not_understood_is_refused(
    tmp_path: Path, content: bytes, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs.pt").write_bytes(content)

    assert main(["checkpoint", "import", str(tmp_path / "theirs.pt"), str(tmp_path / "run")]) == 2

    assert told in capsys.readouterr().err


def test_a_table_longer_than_its_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"\xff" * 40)

    assert main(["checkpoint", "import", str(path), str(tmp_path / "run")]) == 2

    told = capsys.readouterr().err
    assert "is no whole file of safetensors: its table would be longer than the file" in told


@pytest.mark.parametrize("name", ["../w.safetensors", "/w.safetensors", 3])
def test_an_index_leads_to_no_file_outside_of_its_folder(
    tmp_path: Path, name: object, capsys: pytest.CaptureFixture[str]
) -> None:
    trained()[2].export(tmp_path / "w.safetensors")
    folder = tmp_path / "theirs"
    folder.mkdir()
    index = {"weight_map": {"weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    assert main(["checkpoint", "import", str(folder), str(tmp_path / "run")]) == 2

    assert f"names {name!r}, which is no file of its folder" in capsys.readouterr().err


@pytest.mark.parametrize("left", [20, -3])
def test_a_cut_file_of_dcp_is_not_said_to_need_pickle(
    tmp_path: Path, left: int, capsys: pytest.CaptureFixture[str]
) -> None:
    trained()[2].export(tmp_path / "dcp", to="dcp")
    for file in (tmp_path / "dcp").glob("*.distcp"):
        file.write_bytes(file.read_bytes()[:left])

    assert main(["checkpoint", "import", str(tmp_path / "dcp"), str(tmp_path / "run")]) == 2

    told = capsys.readouterr().err
    assert "dcp is no whole checkpoint of DCP" in told
    assert "pickle" not in told


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("", "weights need a path to go to, and it is empty"),
        ("s3://bucket/w", "s3://bucket/w is a URL: weights are written to this machine's own"),
        ("taken/w.safetensors", "taken is a file: there can be no weights in it"),
    ],
)
def test_weights_go_to_a_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("")

    with pytest.raises(WriteError, match=re.escape(told)):
        trained()[2].export(path)

    assert os.listdir() == ["taken"]


def test_one_of_two_models_may_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, run = str(tmp_path / "theirs.pt"), str(tmp_path / "run")
    torch.save({"net": STATE, "ema": {"weight": torch.ones(1, 2), "bias": torch.ones(1)}}, path)

    assert main(["checkpoint", "import", path, run, "--model", "other"]) == 2
    assert "holds no model under 'other'; there is: 'net', 'ema'" in capsys.readouterr().err
    assert main(["checkpoint", "import", path, run, "--model", "ema"]) == 0
    assert main(["checkpoint", "import", path, run, "--model", "ema"]) == 2
    assert "holds checkpoints already: give the folder of a new run" in capsys.readouterr().err

    with pytest.warns(EngineWarning, match="nothing of the optimizer"):
        model, _, _ = arrived(tmp_path / "run", model=nn.Linear(2, 1))
    assert torch.equal(model.weight, torch.ones(1, 2))


def test_another_model_is_refused_with_the_difference(tmp_path: Path) -> None:
    torch.save(nn.Linear(3, 1).state_dict(), tmp_path / "w.pt")
    main(["checkpoint", "import", str(tmp_path / "w.pt"), str(tmp_path / "run")])

    with pytest.raises(ResumeError, match="size mismatch for weight"):
        arrived(tmp_path / "run", model=nn.Linear(2, 1))


def test_other_groups_than_the_imported_ones_are_refused(tmp_path: Path) -> None:
    theirs, optimizer, _ = trained()
    path = recipe(tmp_path, "dcp", theirs, optimizer)
    main(["checkpoint", "import", str(path), str(tmp_path / "run")])
    model = Tied()
    others = [p for name, p in model.named_parameters() if name != "scale"]
    groups = [{"params": [model.scale]}, {"params": others}]
    engine = Engine(model, Adam(groups), checkpoint=tmp_path / "run")

    with pytest.raises(ResumeError, match="build it with the same groups"):
        engine.resume()


def test_groups_of_other_sizes_than_the_imported_ones_are_refused(tmp_path: Path) -> None:
    theirs, optimizer, _ = trained()
    path = recipe(tmp_path, "torch", theirs, optimizer)
    main(["checkpoint", "import", str(path), str(tmp_path / "run")])
    model = Tied()
    first, *others = model.parameters()
    groups = [{"params": [first]}, {"params": others}]
    engine = Engine(model, Adam(groups), checkpoint=tmp_path / "run")

    with pytest.raises(ResumeError) as told:
        engine.resume()

    assert str(told.value) == (
        "the optimizer has groups of 1 and 4 parameters, and the imported one of 5: build it with "
        "the same groups, or import the weights alone"
    )


def test_several_owners_arrive_by_themselves(tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "w.pt")
    main(["checkpoint", "import", str(tmp_path / "w.pt"), str(tmp_path / "run")])
    models = {"G": nn.Linear(2, 1), "D": nn.Linear(2, 1)}
    optimizers = {name: SGD(model.parameters(), lr=0.1) for name, model in models.items()}

    with pytest.raises(EngineError, match="this engine has several owners"):
        Engine(models, optimizers, checkpoint=tmp_path / "run").resume()
