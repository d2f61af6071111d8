"""What is said of each training loop: that it was rehearsed, from where, or why it was not."""

import json
from pathlib import Path

import pytest

from gradkeeper.cli import main
from gradkeeper.lint import check_source, explore, run
from gradkeeper.lint.program import TrainingLoop
from gradkeeper.rules import ALL
from tests.lint.linting import HEAD, loop

RIGHT = "optimizer.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()"


def loops(code: str) -> list[TrainingLoop]:
    return check_source(code, "train.py", ALL, fixes=False).training


def the_loop(code: str) -> TrainingLoop:
    (found,) = loops(code)
    return found


def test_a_loop_that_comes_to_its_step_twice_is_rehearsed() -> None:
    found = the_loop(loop(RIGHT))

    assert found.why == ""
    assert (found.place, found.what) == ("7", "for x in loader")
    assert found.begins == ("train.py, run as a script",)


def test_the_step_of_the_loop_around_it_is_as_good_as_its_own() -> None:
    code = HEAD + (
        "for window in windows:\n"
        "    optimizer.zero_grad()\n"
        "    for x in window:\n"
        "        model(x).mean().backward()\n"
        "    optimizer.step()\n"
    )

    assert the_loop(code).why == ""


NAMED_AS_ITS_DECORATOR = """
import hydra
import torch

class Runner:
    def __init__(self, model):
        self.model = model

@hydra.main(config_path="config")
def {name}(config):
    runner, model = Runner(config), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(config.epochs):
        for x in load(config):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        runner.model = model
"""


@pytest.mark.parametrize("name", ["main", "train"])
def test_a_function_is_not_its_own_decorator(name: str) -> None:
    assert the_loop(NAMED_AS_ITS_DECORATOR.format(name=name)).what == "for x in load(config)"


WGAN = (
    HEAD
    + """\
critic = nn.Linear(4, 1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for epoch in range(3):
    for x in loader:
        for _ in range(5):
            critic_optimizer.zero_grad()
            critic(x).mean().backward()
            critic_optimizer.step()
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""
)


def test_a_loop_that_trains_around_another_one_is_told_as_well() -> None:
    found = loops(WGAN)

    assert [loop.what for loop in found] == ["for x in loader", "for _ in range(5)"]
    assert [loop.why for loop in found] == ["", ""]


SAME_NAME = """
import thop
import torch

def profile(model, x):
    model(x).mean().backward()

class Fitter:
    def cache(self, loss):
        loss.backward()

class Send:
    def __call__(self, loss):
        {sends}

def go_through(layers, x, profile=None, send=None):
    cache = []
    for layer in layers:
        {body}
    return x

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    optimizer.zero_grad()
    model(go_through([], x, {given})).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "given", "sends", "trains"),
    [
        ("x = layer(x, profile)", "True", "print(loss)", False),
        ("x = thop.profile(layer, x)", "True", "print(loss)", False),
        ("from thop import profile; x = profile(layer, x)", "True", "print(loss)", False),
        ("cache.append(layer(x))", "True", "print(loss)", False),
        ("send(layer(x))", "send=Send()", "print(loss)", False),
        ("send(layer(x))", "send=Send()", "loss.backward()", True),
        ("profile(layer, x)", "profile", "print(loss)", True),
        ("profile(layer, x)", "profile=profile", "print(loss)", True),
    ],
)
def test_what_is_called_as_a_function_that_trains_need_not_be_one(
    body: str, given: str, sends: str, trains: bool
) -> None:
    told = [loop.what for loop in loops(SAME_NAME.format(body=body, given=given, sends=sends))]

    assert told == [*(["for layer in layers"] if trains else []), "for x in loader"]


def test_an_epoch_around_a_function_with_the_loop_is_no_training_loop() -> None:
    code = HEAD + (
        "def train():\n"
        "    for x in loader:\n"
        "        optimizer.zero_grad()\n"
        "        model(x).mean().backward()\n"
        "        optimizer.step()\n"
        "for epoch in range(3):\n"
        "    train()\n"
    )

    assert the_loop(code).what == "for x in loader"


def test_weights_that_are_moved_by_hand_are_a_step() -> None:
    by_hand = (
        "model.zero_grad()\nmodel(x).mean().backward()\n"
        "with torch.no_grad():\n    for p in model.parameters():\n        p -= 0.1 * p.grad"
    )

    assert the_loop(loop(by_hand)).why == ""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("optimizer.zero_grad()\nmodel(x).mean().backward()\nbreak", "no step follows"),
        (RIGHT + "\nbreak", "first round"),
        ("optimizer.zero_grad()\nmodel(x).mean().backward()", "no step follows"),
        ("if False:\n    model(x).mean().backward()\n    optimizer.step()", "comes to no backward"),
        (
            "def closure():\n    model(x).mean().backward()\noptimizer.step()",
            "comes to no backward",
        ),
    ],
)
def test_a_loop_that_is_not_rehearsed_says_why(body: str, why: str) -> None:
    assert why in the_loop(loop(body)).why


def test_a_loop_in_which_an_engine_steps_is_rehearsed() -> None:
    head = HEAD + "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=model)\n"

    assert the_loop(loop("engine.backward(engine(x).mean())\nengine.step()", head=head)).why == ""
    forgotten = the_loop(loop("engine.backward(engine(x).mean())", head=head))
    assert forgotten.why == "no step follows its backward"


def test_a_loop_with_a_single_round_needs_no_second() -> None:
    assert the_loop(loop(RIGHT, over="for x in [torch.randn(8, 4)]:")).why == ""


def test_a_loop_that_no_run_reaches_is_told() -> None:
    found = the_loop(loop(RIGHT, head=HEAD + "raise SystemExit\n"))

    assert "no run comes to it" in found.why
    assert not found.begins


def test_settings_are_told_with_what_was_tried_of_them() -> None:
    body = RIGHT.replace("optimizer.step", "if args.clip:\n    clip(model)\noptimizer.step")
    head = HEAD + (
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
        "def clip(model):\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    )

    assert the_loop(loop(body, head=head)).settings == ("args.clip true and false",)


def test_a_function_that_nobody_calls_is_where_a_rehearsal_begins() -> None:
    code = """\
def train(model, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""

    assert the_loop(code).begins == ("train() of line 1, which nobody calls",)


def test_what_silenced_the_rules_in_every_run_is_told() -> None:
    body = "elsewhere.backward_and_more(model(x).mean())\nmodel(x).mean().backward()\n"
    found = the_loop(loop(body + "optimizer.step()", head=HEAD + "import elsewhere\n"))

    assert found.why == ""
    assert found.doubts == ("gradients are handled in code that is not seen",)


LIGHTNING = """\
import lightning as L
import torch


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.layer(batch).mean())
        optimizer.step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
"""
IGNITE = """\
import torch
from ignite.engine import Engine

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def update(engine, batch):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()


trainer = Engine(update)
trainer.run(loader, max_epochs=3)
"""


@pytest.mark.parametrize(("code", "line"), [(LIGHTNING, "11"), (IGNITE, "8")])
def test_what_a_framework_calls_for_each_batch_is_a_loop_too(code: str, line: str) -> None:
    found = the_loop(code)

    assert (found.place, found.why) == (line, "")
    assert "called by a framework" in found.what


def test_the_command_explains_its_silence_loop_by_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(loop(RIGHT) + loop(RIGHT + "\nbreak", head=""))

    assert main(["check", "train.py", "--explain-silence", "--statistics"]) == 0

    assert capsys.readouterr().out == (
        "nothing found: 1 training loop checked, 1 not understood\n"
        "train.py:7  for x in loader\n"
        "   1 rehearsal, from train.py, run as a script\n"
        "train.py:11  for x in loader\n"
        "   not rehearsed through two rounds to a step: it is left in its first round\n"
        "   1 rehearsal, from train.py, run as a script\n"
        "training loops: 2 seen, 1 rehearsed through to a step (50%), 1 not understood\n"
        "     1 it is left in its first round\n"
    )


def test_a_budget_that_ends_before_all_was_tried_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"if args.a{n}:\n    optimizer.zero_grad()\n" for n in range(9))
    code = loop(lines + RIGHT)
    whole = the_loop(code)
    monkeypatch.setattr(run, "TOTAL", 100)

    assert the_loop(code).unfinished
    assert not whole.unfinished


def test_an_output_for_machines_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(loop(RIGHT))

    main(["check", "train.py", "--explain-silence", "--format", "json"])

    out, err = capsys.readouterr()
    assert json.loads(out)["findings"] == []
    assert "train.py:7  for x in loader" in err


def test_a_notebooks_loop_is_told_by_its_cell(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": text} for text in (HEAD, loop(RIGHT, head=""))]
    book = tmp_path / "train.ipynb"
    book.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))

    from gradkeeper.lint.check import check_bytes

    (found,) = check_bytes(book.read_bytes(), str(book)).training
    assert found.place == "cell 2:1"


BEHIND_TESTS = """
import argparse
import os
import torch
from torch import nn
from parts import load, loader

args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.kind == "linear":
    if os.path.exists(args.out):
        load(model, args.out)
    else:
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
for x in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


def test_a_loop_behind_a_test_is_come_to_however_few_runs_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explore, "MOST_RUNS", 1)
    assert [found.why for found in loops(BEHIND_TESTS)] == ["", ""]

    monkeypatch.setattr(explore, "MOST_GATES", 0)
    assert [found.why for found in loops(BEHIND_TESTS)] == ["no run comes to it", ""]
