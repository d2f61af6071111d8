from pathlib import Path

import pytest

from gradkeeper.rules.window_divided_twice import rule
from tests.lint.linting import told
from tests.script import block, marked, mean, over_model, reasons
from tests.watcher.loops import run

OVER_16 = mean(over=16) | {"twice": 4}


def test_windows_of_losses_that_were_divided_twice_are_reported_at_their_backward() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(3):
        script.window(4, **OVER_16)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK207:9"]
    (finding,) = [one for one in script.findings() if one.rule == rule.code]
    assert finding.message == (
        "backward() takes a loss that was divided by the number of batches in the window, and then "
        "again"
    )
    assert finding.detail == (
        "account `optimizer`: credited on 9 by N batches, each loss with weight 1/N², spent on 15"
    )
    assert reasons(finding) == [(15, "applies 1/N of the window's gradient")]


def test_windows_of_losses_that_were_divided_once_are_silent() -> None:
    script = over_model(block(rule, "good"))
    for _ in range(3):
        script.window(4, **mean(over=4))
    script.close()

    assert script.findings() == []


def test_windows_of_another_length_than_the_number_are_silent() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(3):
        script.window(3, **OVER_16)
    script.close()

    assert script.lines_of(rule) == []


HEAD = """\
import torch
import torch.nn.functional as F

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

"""
RIGHT = {
    "four losses of one batch in windows of four": """
for i, x in enumerate(torch.randn(12, 8, 4)):
    y = model(x)
    a, b, c, d = y.square().mean(), y.abs().mean(), F.softplus(y).mean(), F.relu(y).mean()
    loss = (a + b + c + d) / 4
    (loss / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a sum over four items in windows of four": """
for i, x in enumerate(torch.randn(12, 4, 4)):
    loss = model(x).square().sum() / 4
    (loss / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a halved loss in windows of two": """
for i, x in enumerate(torch.randn(12, 8, 4)):
    loss = model(x).square().mean() / 2
    (loss / 2).backward()
    if (i + 1) % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a temperature of four, and steps at once": """
for x in torch.randn(12, 8, 4):
    loss = model(x).square().mean() / 4 / 4
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "another number beside the window's": """
for i, x in enumerate(torch.randn(12, 8, 4)):
    loss = model(x).square().mean() / 3
    (loss / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
}
WRONG = {
    "by hand and by a helper": """
def accumulate(loss, over):
    (loss / over).backward()  # here

for i, x in enumerate(torch.randn(12, 8, 4)):
    loss = F.mse_loss(model(x), x[:, :1]) / 4
    accumulate(loss, 4)
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "multiplied and divided": """
for i, x in enumerate(torch.randn(15, 8, 4)):
    loss = model(x).square().mean() * (1 / 5)
    loss = loss / 5
    loss.backward()  # here
    if (i + 1) % 5 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
}


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_right_programs_are_silent_read_and_run(code: str, tmp_path: Path) -> None:
    assert "GK207" not in told(HEAD + code)
    assert "GK207" not in str(run(tmp_path, HEAD + code, header="").found)


def test_a_helper_that_divides_again_is_found_read_and_run(tmp_path: Path) -> None:
    code = HEAD + WRONG["by hand and by a helper"]
    loop = run(tmp_path, code, header="")

    assert told(code) == ["GK207"]
    assert loop.found == [f"GK207:{loop.line('# here')}"]


def test_a_product_counts_as_a_division_where_numbers_are_seen(tmp_path: Path) -> None:
    loop = run(tmp_path, HEAD + WRONG["multiplied and divided"], header="")

    assert loop.found == [f"GK207:{loop.line('# here')}"]


ACCELERATED = """\
import argparse
import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin

args = argparse.ArgumentParser().parse_args()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accelerator = Accelerator({})
model, optimizer, loader = accelerator.prepare(model, optimizer, load())
for epoch in range(3):
    for x in loader:
        with accelerator.accumulate(model):
            loss = model(x).square().mean(){}
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
"""
DIVIDED_TWICE = [
    ("gradient_accumulation_steps=4", " / 4"),
    ("gradient_accumulation_steps=args.accumulate", " / args.accumulate"),
    ("gradient_accumulation_steps=4", " / accelerator.gradient_accumulation_steps"),
    ("gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=8)", " / 8"),
]
DIVIDED_ONCE = [
    ("gradient_accumulation_steps=4", ""),
    ("gradient_accumulation_steps=args.accumulate", ""),
    ("gradient_accumulation_steps=args.accumulate", " / args.temperature"),
    ("gradient_accumulation_steps=1", " / 4"),
    ("", " / args.accumulate"),
    ("gradient_accumulation_steps=2", " / 2"),
]


@pytest.mark.parametrize(("options", "division"), DIVIDED_TWICE)
def test_what_accelerate_divides_is_divided_already(options: str, division: str) -> None:
    assert told(ACCELERATED.format(options, division)) == ["GK207"]


@pytest.mark.parametrize(("options", "division"), DIVIDED_ONCE)
def test_one_division_is_right(options: str, division: str) -> None:
    assert told(ACCELERATED.format(options, division)) == []


BY_HAND = """\
import torch
from accelerate import Accelerator

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(model, optimizer, load())
for i, x in enumerate(loader):
    accelerator.backward(model(x).square().mean() / 4)
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_window_by_hand_around_accelerate_divides_by_hand() -> None:
    assert "GK207" not in told(BY_HAND)


OWN_LOSS = """\
import argparse
from accelerate import Accelerator
from transformers import AutoModelForCausalLM
import torch

args = argparse.ArgumentParser().parse_args()
accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)
model = AutoModelForCausalLM.from_pretrained(args.name)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, load())
for epoch in range(3):
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            loss = loss / args.gradient_accumulation_steps
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
"""


def test_a_models_own_loss_over_the_same_option_is_divided_twice() -> None:
    assert told(OWN_LOSS) == ["GK207"]
