"""engine.aside(): a signal during evaluation or warm-up ends the process at once, nothing is lost,
and what is drawn there is not the training's.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from gradkeeper.checkpoint import Store
from gradkeeper.engine import Engine, EngineError, WindowError
from tests.engine.problems import classifier, credit_all, engine_of, loader

SCRIPT = """
import sys, time, torch
from torch import nn
from torch.utils.data import DataLoader
from gradkeeper import Engine

folder, place, stays_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
engine = Engine(net, torch.optim.AdamW(net.parameters(), lr=0.1), checkpoint=folder)
engine.resume()
evaluations = 0

def evaluate():
    global evaluations
    evaluations += 1
    with engine.aside():
        # As an average of the weights is evaluated: put in their place for as long as that takes.
        kept = [p.detach().clone() for p in net.parameters()]
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(torch.randn_like(p))
        if evaluations == stays_at:
            print("evaluating", flush=True)
            time.sleep(600)
        with torch.no_grad():
            for p, was in zip(net.parameters(), kept):
                p.copy_(was)

if place == "warm-up":
    evaluate()
data = DataLoader([torch.ones(3) * i for i in range(24)], batch_size=2, shuffle=True)
for _ in range(2):
    for window in engine.windows(data, size=3):
        with window:
            for x in window:
                window.backward(net(x / 24).square().mean(), weight=len(x))
        if place == "loop":
            evaluate()
    if place == "between":
        evaluate()
torch.save(net.state_dict(), folder + "/weights.pt")
print("done", engine.steps["optimizer"], flush=True)
"""


def start(
    folder: Path, place: str, stays_at: int = 0, *, script: str = SCRIPT
) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder), place, str(stays_at)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path, place: str) -> dict[str, torch.Tensor]:
    process = start(folder, place)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "done 8\n"), err
    weights: dict[str, torch.Tensor] = torch.load(folder / "weights.pt")
    return weights


@pytest.mark.parametrize(("place", "stays_at"), [("loop", 3), ("between", 1), ("warm-up", 1)])
def test_a_signal_during_evaluation_saves_and_the_run_goes_on_bit_for_bit(
    tmp_path: Path, place: str, stays_at: int
) -> None:
    whole = finish(tmp_path / "whole", place)
    process = start(tmp_path / "cut", place, stays_at)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "evaluating\n", process.communicate(timeout=60)[1]

    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (143, "", "")
    found = Store(tmp_path / "cut").load()
    steps = {"loop": 3, "between": 4, "warm-up": None}[place]
    assert (found.facts["steps"]["optimizer"] if found else None) == steps
    again = finish(tmp_path / "cut", place)
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_without_it_a_signal_outside_a_window_waits_for_the_next_one(tmp_path: Path) -> None:
    without = SCRIPT.replace("with engine.aside():", "if True:")
    process = start(tmp_path, "loop", 1, script=without)
    assert process.stdout is not None
    assert process.stdout.readline() == "evaluating\n"

    process.send_signal(signal.SIGTERM)

    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=2)
    process.kill()
    process.communicate(timeout=60)
    assert Store(tmp_path).names() == []


def test_what_is_drawn_inside_is_taken_back(tmp_path: Path) -> None:
    engine = engine_of(classifier())
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)

    with engine.aside():
        torch.rand(100)

    assert torch.equal(torch.rand(3), wanted)


def test_it_is_taken_back_after_an_exception_too() -> None:
    engine = engine_of(classifier())
    before = torch.get_rng_state()

    with pytest.raises(KeyError), engine.aside():
        torch.rand(1)
        raise KeyError

    assert torch.equal(torch.get_rng_state(), before)


class Averaging(torch.optim.SGD):
    """Evaluates other weights than it trains, as schedule-free optimizers do."""

    def eval(self) -> None:
        self.move(1 - 1 / 0.9)
        self.param_groups[0]["train_mode"] = False

    def train(self) -> None:
        self.move(0.1)
        self.param_groups[0]["train_mode"] = True

    def move(self, weight: float) -> None:
        with torch.no_grad():
            for place, parameter in enumerate(self.param_groups[0]["params"]):
                parameter.lerp_(torch.full_like(parameter, 0.3 + place), weight)


def averaging() -> tuple[Engine, Averaging, list[torch.Tensor]]:
    model = classifier()
    optimizer = Averaging(model.parameters(), lr=0.1)
    optimizer.param_groups[0]["train_mode"] = True
    return Engine(model, optimizer), optimizer, [p.detach().clone() for p in model.parameters()]


def test_weights_that_were_others_inside_are_put_back_bit_for_bit() -> None:
    engine, optimizer, before = averaging()
    optimizer.eval()
    optimizer.train()
    after = optimizer.param_groups[0]["params"]
    assert not all(map(torch.equal, after, before)), "the way there and back rounds"

    engine, optimizer, before = averaging()
    with engine.aside():
        optimizer.eval()
        optimizer.train()

    after = optimizer.param_groups[0]["params"]
    assert all(map(torch.equal, after, before))


def test_those_of_an_optimizer_that_does_not_train_again_yet_are_left() -> None:
    engine, optimizer, before = averaging()

    with engine.aside():
        optimizer.eval()

    after = optimizer.param_groups[0]["params"]
    assert not any(map(torch.equal, after, before))


def test_it_saves_what_is_new_and_only_that(tmp_path: Path) -> None:
    model = classifier()
    engine = Engine(model, torch.optim.SGD(model.parameters(), lr=0.1), checkpoint=tmp_path)
    with engine.aside():
        pass
    assert Store(tmp_path).names() == []

    for window in engine.windows(loader(16), size=2):
        with window:
            credit_all(window, model)
        with engine.aside(), engine.aside():
            pass

    assert Store(tmp_path).names() == ["save-000001", "save-000002"]


def test_nothing_is_trained_inside() -> None:
    engine = engine_of(classifier())

    with pytest.raises(WindowError, match="nothing is trained inside"):
        with engine.aside(), engine.window():
            pass


def test_it_does_not_begin_in_an_open_window() -> None:
    engine = engine_of(nn.Linear(4, 1))

    with pytest.raises(EngineError, match="a window is open"):
        with engine.window(), engine.aside():
            pass


def test_inside_groups_the_save_waits_for_the_next_boundary(tmp_path: Path) -> None:
    model = classifier()
    engine = Engine(model, torch.optim.SGD(model.parameters(), lr=0.1), checkpoint=tmp_path)
    for group in engine.batches(loader(16), size=2):
        with engine.window() as window:
            for x, _ in group:
                window.backward(model(x).square().mean())
        with engine.aside():
            assert Store(tmp_path).names() == []
