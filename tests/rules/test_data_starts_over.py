from pathlib import Path

import pytest

from gradkeeper.rules.data_starts_over import rule
from tests.lint.linting import told
from tests.script import block, marked, over_model, reasons
from tests.watcher.loops import run

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


def test_a_batch_from_an_old_iterator_is_reported_where_the_state_is_loaded() -> None:
    script = over_model(block(rule, "bad"))
    script.resume("loader.load_state_dict", loader="loader")
    script.overrun("for (x,)", loader="loader")
    script.close()

    assert script.lines_of(rule) == marked(rule)
    (finding,) = script.findings()
    assert finding.message == (
        "load_state_dict() comes too late: an iterator of `loader` is there, and starts over"
    )
    assert finding.remedy == "loader.load_state_dict() before iter(loader)"
    assert reasons(finding) == [(15, "takes a batch from the old iterator")]


def test_a_state_that_is_loaded_first_is_silent() -> None:
    script = over_model(block(rule, "good"))
    script.resume("loader.load_state_dict", loader="loader")
    script.batch("for (x,)", source="loader")
    script.close()

    assert script.findings() == []


HEAD = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

data = TensorDataset(torch.randn(32, 4))
interrupted = StatefulDataLoader(data, batch_size=4)
next(iter(interrupted))
state = interrupted.state_dict()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = StatefulDataLoader(data, batch_size=4)

def train(x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()

"""
RIGHT = {
    "loaded before iter()": """
loader.load_state_dict(state)
batches = iter(loader)
for (x,) in batches:
    train(x)
""",
    "an iterator that nobody asks any more": """
batches = iter(loader)
print(next(batches)[0].shape)
loader.load_state_dict(state)
for (x,) in loader:
    train(x)
""",
    "made anew after the load": """
batches = iter(loader)
loader.load_state_dict(state)
batches = iter(loader)
for (x,) in batches:
    train(x)
""",
    "counted after the load": """
loader.load_state_dict(state)
batches = enumerate(loader)
for step, (x,) in batches:
    train(x)
""",
    "loaded between two epochs": """
for epoch in range(2):
    for (x,) in loader:
        train(x)
    loader.load_state_dict(state)
""",
    "another loader's state": """
batches = iter(loader)
interrupted.load_state_dict(state)
for (x,) in batches:
    train(x)
""",
}
WRONG = {
    "asked by next()": """
batches = iter(loader)
loader.load_state_dict(state)  # here
for step in range(6):
    (x,) = next(batches)
    train(x)
""",
    "in a class": """
class Trainer:
    def __init__(self):
        self.loader = loader
        self.batches = iter(self.loader)

    def resume(self):
        self.loader.load_state_dict(state)  # here

    def fit(self):
        for (x,) in self.batches:
            train(x)

trainer = Trainer()
trainer.resume()
trainer.fit()
""",
    "counted before the load": """
batches = enumerate(loader)
loader.load_state_dict(state)  # here
for step, (x,) in batches:
    train(x)
""",
    "inside the loop": """
for step, (x,) in enumerate(loader):
    if step == 0:
        loader.load_state_dict(state)  # here
    train(x)
""",
}


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_right_programs_are_silent_read_and_run(code: str, tmp_path: Path) -> None:
    assert told(HEAD + code) == []
    assert run(tmp_path, HEAD + code, header="").found == []


@pytest.mark.parametrize("code", WRONG.values(), ids=WRONG)
def test_wrong_programs_are_found_read_and_run(code: str, tmp_path: Path) -> None:
    loop = run(tmp_path, HEAD + code, header="")

    assert told(HEAD + code) == ["GK405"]
    assert loop.found == [f"GK405:{loop.line('# here')}"]


def test_an_empty_state_tells_nothing(tmp_path: Path) -> None:
    code = WRONG["asked by next()"].replace("(state)", "({})")

    assert run(tmp_path, HEAD + code, header="").found == []


def test_a_loader_that_accelerate_has_is_its_affair() -> None:
    prepared = "from accelerate import Accelerator\nloader = Accelerator().prepare(loader)\n"

    assert told(HEAD + prepared + WRONG["asked by next()"]) == []


def test_the_loader_is_left_as_it_was(tmp_path: Path) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    before = StatefulDataLoader.load_state_dict
    run(tmp_path, HEAD + RIGHT["loaded before iter()"], header="")

    assert StatefulDataLoader.load_state_dict is before
