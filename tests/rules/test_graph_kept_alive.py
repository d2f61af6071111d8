from pathlib import Path

import pytest

from gradkeeper.model import Site
from gradkeeper.rules.graph_kept_alive import rule
from tests.lint.linting import findings
from tests.script import block, marked, over_model, reasons
from tests.watcher.loops import Loop, run


def told(code: str) -> list[str]:
    """This rule's findings: they are infos, which are told to whom asks for them."""
    return [finding.rule for finding in findings(code) if finding.rule == rule.code]


def of_the_rule(loop: Loop) -> list[str]:
    return [brief for brief in loop.everything if brief.startswith(rule.code)]


def test_a_total_that_keeps_graphs_of_several_steps_is_reported_where_it_grows() -> None:
    script = over_model(block(rule, "bad"))
    script.train(4)
    script.keep("total += loss", total="total", steps=3, lines=(Site("block.py", 9),))
    script.close()

    assert script.lines_of(rule) == marked(rule)
    (finding,) = script.findings()
    assert finding.message == (
        "adds a loss with its graph to `total`, which keeps the graph of every batch"
    )
    assert finding.remedy == "add loss.item() to `total`, or loss.detach()"
    assert reasons(finding) == [(9, "is done with the graph that is kept")]


def test_a_total_over_one_step_is_silent() -> None:
    script = over_model(block(rule, "good"))
    script.train(4)
    script.keep("total += loss", total="total", steps=1)
    script.close()

    assert script.findings() == []


HEAD = """\
import torch
import torch.nn.functional as F

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(12, 8, 4)
total = 0.0

"""
LISTED = """
losses = []
for i, x in enumerate(data):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    {first}
    {then}
"""
RIGHT = {
    "a list of numbers": LISTED.format(
        first="loss.backward(); optimizer.step()", then="losses.append(loss.item())"
    ),
    "a list without graphs": LISTED.format(
        first="loss.backward(); optimizer.step()", then="losses.append(loss.detach())"
    ),
    "a list for each batch": LISTED.format(
        first="losses = []; losses.append(loss)", then="sum(losses).backward(); optimizer.step()"
    ),
    "a list that is cleared": LISTED.format(
        first="losses.append(loss)",
        then="sum(losses).backward(); optimizer.step(); losses.clear()",
    ),
    "the last few, which let go of the others": """
from collections import deque
recent = deque(maxlen=4)
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    recent.append(loss)
""",
    "a list for each window": """
losses = []
for i, x in enumerate(data):
    losses.append(model(x).square().mean())
    if (i + 1) % 3 == 0:
        optimizer.zero_grad()
        (sum(losses) / 3).backward()
        optimizer.step()
        losses = []
""",
    "the number": """
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    total += loss.item()
""",
    "without history, times the size of the batch": """
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    total += loss.detach() * len(x)
""",
    "its data": """
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    total += loss.data
""",
    "in place, with gradients off": """
total = torch.zeros(())
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        total += loss
""",
    "tasks that are summed to go back from the sum": """
for x in data:
    optimizer.zero_grad()
    loss = 0
    for task in range(3):
        loss += model(x).square().mean()
    loss.backward()
    optimizer.step()
""",
    "time steps that are summed up, a few at a time": """
loss = 0
for i, x in enumerate(data):
    loss += model(x).square().mean()
    if (i + 1) % 3 == 0:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = 0
""",
    "losses in a list that is stacked to go back from": """
for x in data:
    optimizer.zero_grad()
    losses = []
    for row in x:
        losses.append(model(row).square().mean())
    torch.stack(losses).mean().backward()
    optimizer.step()
""",
    "micro-batches of one step": """
for x in data:
    optimizer.zero_grad()
    total = 0.0
    for part in x.split(2):
        loss = model(part).square().mean() / 4
        loss.backward()
        total += loss
    optimizer.step()
    print(total.item())
""",
    "evaluated without gradients": """
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    for x in data:
        loss = model(x).square().mean()
        total += loss
""",
    "two optimizers, one sum": """
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss += model(x).abs().mean()
    loss.backward()
    optimizer.step()
""",
    "a graph that is retained for the sum": """
for x in data[:4]:
    optimizer.zero_grad()
    total = 0
    for part in x.split(4):
        loss = model(part).square().mean()
        loss.backward(retain_graph=True)
        total += loss
    total.backward()
    optimizer.step()
""",
}
WRONG = {
    "before its backward": """
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    total += loss  # here
    loss.backward()
    optimizer.step()
""",
    "times the size of the batch": """
for x in data:
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :1])
    loss.backward()
    optimizer.step()
    total += loss * len(x)  # here
""",
    "in a tensor": """
total = torch.zeros(())
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    total += loss  # here
""",
    "over a window": """
for i, x in enumerate(data):
    loss = model(x).square().mean()
    (loss / 2).backward()
    total += loss  # here
    if (i + 1) % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "in an epoch of its own function": """
def train():
    running = 0.0
    for x in data:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        running += loss  # here
    return running / len(data)

for epoch in range(2):
    print(train().item())
""",
    "in an attribute": """
class Trainer:
    def __init__(self):
        self.total = 0.0

    def step(self, x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        self.total += loss  # here

trainer = Trainer()
for x in data:
    trainer.step(x)
""",
    "in a list": """
losses = []
for x in data:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss)  # here
""",
    "in a list of an object": """
class Trainer:
    def __init__(self):
        self.losses = []

    def step(self, x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        self.losses.append(loss)  # here

trainer = Trainer()
for x in data:
    trainer.step(x)
""",
}


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_right_programs_are_silent_read_and_run(code: str, tmp_path: Path) -> None:
    assert "GK606" not in told(HEAD + code)
    assert "GK606" not in str(run(tmp_path, HEAD + code, header="").everything)


@pytest.mark.parametrize("code", WRONG.values(), ids=WRONG)
def test_wrong_programs_are_found_read_and_run(code: str, tmp_path: Path) -> None:
    loop = run(tmp_path, HEAD + code, header="")

    assert told(HEAD + code) == ["GK606"]
    assert of_the_rule(loop) == [f"GK606:{loop.line('# here')}"]


SHOWN_BY_A_RUN = {
    "a moving average": "0.9 * total + 0.1 * loss",
    "a sum that is written out": "total + loss",
}


@pytest.mark.parametrize("value", SHOWN_BY_A_RUN.values(), ids=SHOWN_BY_A_RUN)
def test_what_is_assigned_keeps_them_too_as_a_run_shows(value: str, tmp_path: Path) -> None:
    code = WRONG["in a tensor"].replace("total += loss", f"total = {value}")
    loop = run(tmp_path, HEAD + code, header="")

    assert of_the_rule(loop) == [f"GK606:{loop.line('# here')}"]


def test_a_deque_without_a_length_lets_go_of_nothing_as_reading_shows() -> None:
    code = RIGHT["the last few, which let go of the others"].replace("maxlen=4", "")

    assert told(HEAD + code) == ["GK606"]
