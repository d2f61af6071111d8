"""A checkpoint of another run is refused with the difference; a folder is not taken by accident."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from gradkeeper.checkpoint import (
    AllDamagedError,
    CheckpointWarning,
    ForeignError,
    Store,
    UnkeepableError,
)
from gradkeeper.engine import Engine, OtherRunError, ResumeError, SetupError
from tests.engine.problems import classifier, loader, rows


def trained(folder: Path, *, leave: bool = True, **options: Any) -> Engine:
    """Saved in the second window's midst."""
    net = classifier()
    engine = Engine(net, SGD(net.parameters(), lr=0.1), checkpoint=folder, **options)
    count = 0
    for window in engine.windows(loader(23), size=4, epochs=2):
        with window:
            for x, y in window:
                window.backward(cross_entropy(net(x), y))
                count += 1
                if count == 5:
                    engine.save()
                if count == 6 and leave:
                    return engine
    return engine


def fresh(folder: Path, net: nn.Module | None = None, **options: Any) -> Engine:
    net = net or classifier()
    return Engine(net, SGD(net.parameters(), lr=0.1), checkpoint=folder, **options)


def wider() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 17), nn.Tanh(), nn.Dropout(0.0), nn.Linear(17, 3))


def in_groups() -> Callable[[Path], Engine]:
    def build(folder: Path) -> Engine:
        net = classifier()
        groups = [{"params": net[0].parameters()}, {"params": net[3].parameters()}]
        return Engine(net, SGD(groups, lr=0.1), checkpoint=folder)

    return build


def adam(folder: Path) -> Engine:
    net = classifier()
    return Engine(net, Adam(net.parameters()), checkpoint=folder)


def scheduled(folder: Path) -> Engine:
    net = classifier()
    optimizer = SGD(net.parameters(), lr=0.1)
    return Engine(net, optimizer, scheduler=StepLR(optimizer, 1), checkpoint=folder)


def two(folder: Path) -> Engine:
    nets = {"g": classifier(), "d": classifier()}
    optimizers = {name: SGD(net.parameters(), lr=0.1) for name, net in nets.items()}
    return Engine(nets, optimizers, checkpoint=folder)


OTHERS: dict[str, tuple[Callable[[Path], Engine], str]] = {
    "shape": (
        lambda folder: fresh(folder, wider()),
        r"parameters 0\.weight: float32\[16, 6\] in the checkpoint, float32\[17, 6\] here",
    ),
    "names": (
        lambda folder: fresh(folder, nn.ModuleDict({"a": classifier()})),
        r"parameters a\.0\.weight: nothing in the checkpoint",
    ),
    "dtype": (lambda folder: fresh(folder, classifier(torch.float64)), "float64"),
    "optimizer": (adam, r"class: torch\.optim\.sgd\.SGD in the checkpoint, .*Adam here"),
    "groups": (in_groups(), "optimizer groups: 1 of them in the checkpoint, 2 of them here"),
    "scheduler": (scheduled, "scheduler: none in the checkpoint, StepLR here"),
    "precision": (
        lambda folder: fresh(folder, precision="bf16"),
        "precision: fp32 in the checkpoint, bf16 here",
    ),
    "owners": (two, "optimizer: .* in the checkpoint, nothing here"),
}


@pytest.mark.parametrize(("build", "said"), OTHERS.values(), ids=OTHERS)
def test_another_run_is_refused_with_the_difference(
    tmp_path: Path, build: Callable[[Path], Engine], said: str
) -> None:
    trained(tmp_path)
    other = build(tmp_path)
    before = [one.clone() for one in next(iter(other._owners.values())).model.parameters()]

    with pytest.raises(ResumeError, match=said):
        other.resume()

    after = next(iter(other._owners.values())).model.parameters()
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))


def longer() -> DataLoader[Any]:
    return loader(27)


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (lambda e: e.windows(loader(23), size=3, epochs=2), "size: 4 in the checkpoint, 3 here"),
        (lambda e: e.windows(longer(), size=4, epochs=2), "loader length: 6 in the checkpoint, 7"),
        (lambda e: e.batches(loader(23), size=4, epochs=2), "loop: windows in the checkpoint"),
        (
            lambda e: e.windows(
                DataLoader(TensorDataset(*rows(23)), batch_size=4, shuffle=True), size=4, epochs=2
            ),
            "sampler: SequentialSampler in the checkpoint, RandomSampler here",
        ),
    ],
)
def test_another_loop_is_refused_with_the_difference(
    tmp_path: Path, loop: Callable[[Engine], Any], said: str
) -> None:
    trained(tmp_path)
    engine = fresh(tmp_path)
    assert engine.resume()

    with pytest.raises(ResumeError, match=said):
        next(iter(loop(engine)))


def test_a_loop_with_fewer_epochs_than_are_done_is_refused(tmp_path: Path) -> None:
    net = classifier()
    engine = fresh(tmp_path, net)
    for window in engine.windows(loader(23), size=4, epochs=2):
        with window:
            for x, y in window:
                window.backward(cross_entropy(net(x), y))
        if window.step == 3:
            engine.save()
    again = fresh(tmp_path)
    again.resume()

    with pytest.raises(ResumeError, match="in epoch 2 of this loop, which has only 1 now"):
        next(iter(again.windows(loader(23), size=4, epochs=1)))


def test_a_fresh_run_does_not_save_into_anothers_folder(tmp_path: Path) -> None:
    trained(tmp_path)

    with pytest.raises(OtherRunError, match="holds save-000001 of another run"):
        trained(tmp_path, leave=False)

    assert Store(tmp_path).names() == ["save-000001"]


def test_overwrite_replaces_anothers_checkpoints(tmp_path: Path) -> None:
    trained(tmp_path)

    trained(tmp_path, overwrite=True)

    assert Store(tmp_path).names() == ["save-000002"]


def test_a_resumed_run_goes_on_saving_in_its_folder(tmp_path: Path) -> None:
    trained(tmp_path)
    engine = fresh(tmp_path)
    engine.resume()

    engine.windows(loader(23), size=4, epochs=2)
    net = engine._owners["optimizer"].model
    for window in engine.windows(loader(23), size=4, epochs=2):
        with window:
            for x, y in window:
                window.backward(cross_entropy(net(x), y))
        engine.save()

    assert len(Store(tmp_path).names()) == 3


def test_an_empty_folder_is_nothing_to_resume_from(tmp_path: Path) -> None:
    assert not fresh(tmp_path / "new").resume()


def test_a_run_that_has_begun_is_not_resumed(tmp_path: Path) -> None:
    engine = trained(tmp_path)

    with pytest.raises(RuntimeError, match="before its first loop"):
        engine.resume()


def test_what_cannot_be_kept_is_refused_by_name(tmp_path: Path) -> None:
    net = classifier()
    engine = fresh(tmp_path, net)

    class Odd:
        def state_dict(self) -> dict[str, object]:
            return {"handle": object()}

        def load_state_dict(self, state: dict[str, object]) -> None:
            raise AssertionError

    engine.track("odd", Odd())

    with pytest.raises(UnkeepableError, match=r"tracked.*odd.*handle.*is a object"):
        engine.save()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"save_every": 3}, "save_every needs a place"),
        ({"checkpoint": "x", "save_every": 0}, "save_every is a number of steps from 1 on"),
        ({"checkpoint": "x", "keep": 1}, "at least 2"),
        ({"checkpoint": "x", "keep_every": 0}, "at least 1|At least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    net = classifier()

    with pytest.raises(SetupError, match=said):
        Engine(net, SGD(net.parameters(), lr=0.1), **options)


def test_saving_needs_a_place() -> None:
    net = classifier()
    engine = Engine(net, SGD(net.parameters(), lr=0.1))

    with pytest.raises(SetupError, match=r"Engine\(checkpoint=…\)"):
        engine.save()
    with pytest.raises(SetupError, match=r"Engine\(checkpoint=…\)"):
        engine.resume()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"checkpoint": ""}, "checkpoints need a folder or a URL, not ''"),
        ({"checkpoint": 3}, "checkpoints need a folder or a URL, not 3"),
        ({"checkpoint": "run", "keep": "two"}, "keep='two': at least 2"),
        ({"checkpoint": "run", "keep_every": 0.5}, "keep_every=0.5: every how many saves"),
    ],
)
def test_settings_of_the_place_are_looked_at_before_training(
    options: dict[str, Any], told: str
) -> None:
    net = classifier()

    with pytest.raises(SetupError, match=told):
        Engine(net, SGD(net.parameters(), lr=0.1), **options)


def test_a_file_is_no_place(tmp_path: Path) -> None:
    file = tmp_path / "run.ckpt"
    file.write_text("mine")
    net = classifier()
    engine = Engine(net, SGD(net.parameters(), lr=0.1), checkpoint=file)

    for act in (engine.save, engine.resume):
        with pytest.raises(ForeignError, match=r"run\.ckpt is a file: checkpoints need a folder"):
            act()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-7]),
    "flipped": lambda file: file.write_bytes(_flipped(file.read_bytes())),
    "deleted": lambda file: file.unlink(),
    "swapped": lambda file: file.write_bytes(
        (file.parent.parent / "save-000001" / file.name).read_bytes()
    ),
}


def _flipped(data: bytes) -> bytes:
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def saved_thrice(folder: Path) -> None:
    engine = fresh(folder)
    net = engine._owners["optimizer"].model
    for window in engine.windows(loader(23), size=2):
        with window:
            for x, y in window:
                window.backward(cross_entropy(net(x), y))
        engine.save()


@pytest.mark.parametrize("name", ["manifest.json", "tensors.safetensors"])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    tmp_path: Path, name: str, damage: Callable[[Path], object]
) -> None:
    saved_thrice(tmp_path)
    damage(tmp_path / "save-000003" / name)
    engine = fresh(tmp_path)

    with pytest.warns(CheckpointWarning, match="save-000003"):
        assert engine.resume()

    assert engine.steps == {"optimizer": 2}


def test_if_all_are_damaged_nothing_is_resumed(tmp_path: Path) -> None:
    saved_thrice(tmp_path)
    for file in tmp_path.glob("save-*/manifest.json"):
        DAMAGE["flipped"](file)

    with pytest.raises(AllDamagedError):
        fresh(tmp_path).resume()
