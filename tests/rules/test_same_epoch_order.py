from pathlib import Path

import pytest

from gradkeeper.rules.same_epoch_order import rule
from tests.lint.linting import told
from tests.script import Script, block, marked, over_model, reasons
from tests.watcher.loops import run


def epoch(script: Script, seed: int, *, sampler: str = "sampler", source: str = "loader") -> None:
    script.shuffle("for (x,)", source=source, sampler=sampler, seed=seed)
    script.epoch_begin("for (x,)", source=source)
    for _ in range(2):
        script.batch("for (x,)", source=source)
        script.zero("optimizer.zero_grad()", accounts=("model",))
        script.backward("backward()", accounts=("model",))
        script.spend()
    script.epoch_end("for (x,)", source=source)


def look(script: Script, seed: int, *, sampler: str = "sampler", source: str = "loader") -> None:
    """Somebody goes over the data, and learns nothing from it."""
    script.shuffle("for (x,)", source=source, sampler=sampler, seed=seed)
    script.epoch_begin("for (x,)", source=source)
    script.batch("for (x,)", source=source)
    script.epoch_end("for (x,)", source=source)


def test_a_second_epoch_in_the_same_order_is_reported_at_its_loop() -> None:
    script = over_model(block(rule, "bad"))
    for _ in range(3):
        epoch(script, 0)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK505:10"]
    (finding,) = script.findings()
    assert finding.message == (
        "takes the data in the same order as the epoch before: set_epoch() is not called"
    )
    assert finding.remedy == "sampler.set_epoch(epoch) at the top of each epoch"
    assert reasons(finding) == [(13, "trains on it")]


def test_an_order_for_each_epoch_is_silent() -> None:
    script = over_model(block(rule, "good"))
    for number in range(3):
        epoch(script, number)
    script.close()

    assert script.findings() == []


def test_a_look_at_the_data_before_a_single_epoch_is_silent() -> None:
    script = over_model(block(rule, "bad"))
    look(script, 0)
    epoch(script, 0)
    look(script, 0)
    script.close()

    assert script.findings() == []


def test_evaluating_in_the_middle_of_an_epoch_does_not_make_it_the_next() -> None:
    script = over_model(block(rule, "bad"))
    script.shuffle("for (x,)", source="loader", sampler="sampler", seed=0)
    script.epoch_begin("for (x,)", source="loader")
    script.batch("for (x,)", source="loader")
    script.backward("backward()", accounts=("model",))
    script.spend()
    look(script, 0)
    script.zero("optimizer.zero_grad()", accounts=("model",))
    script.batch("for (x,)", source="loader")
    script.backward("backward()", accounts=("model",))
    script.spend()
    script.close()

    assert script.findings() == []


def test_another_sampler_in_the_same_loop_is_compared_with_itself() -> None:
    script = over_model(block(rule, "bad"))
    for number in range(2):
        epoch(script, number)
        look(script, 0, sampler="for validation")
    script.close()

    assert script.findings() == []


HEAD = """\
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset

data = TensorDataset(torch.randn(32, 4))
sampler = DistributedSampler(data, num_replicas=1, rank=0)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(loader):
    for (x,) in loader:  # here
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

"""
RIGHT = {
    "told in batches": """
batches = BatchSampler(sampler, 8, False)
loader = DataLoader(data, batch_sampler=batches)
for epoch in range(3):
    batches.sampler.set_epoch(epoch)
    train(loader)
""",
    "told through the loader": """
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    train(loader)
""",
    "told by a helper": """
def begin(sampler, epoch):
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)

for epoch in range(3):
    begin(sampler, epoch)
    train(loader)
""",
    "its number set by hand": """
for epoch in range(3):
    sampler.epoch = epoch
    train(loader)
""",
    "a single epoch": "train(loader)\n",
    "a single epoch after a look at one batch": """
print(next(iter(loader))[0].shape)
train(loader)
""",
    "one that does not shuffle": """
sampler = DistributedSampler(data, num_replicas=1, rank=0, shuffle=False)
loader = DataLoader(data, batch_size=8, sampler=sampler)
for epoch in range(3):
    train(loader)
""",
    "a loader that only evaluates": """
plain = DataLoader(data, batch_size=8, shuffle=True)
for epoch in range(3):
    train(plain)
    with torch.no_grad():
        for (x,) in loader:
            print(model(x).mean())
""",
    "data that is told the epoch itself": """
class Data(TensorDataset):
    def set_epoch(self, epoch):
        self.tensors = (self.tensors[0][torch.randperm(32)],)

data = Data(torch.randn(32, 4))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, 1, 0))
for epoch in range(3):
    data.set_epoch(epoch)
    train(loader)
""",
    "a sampler of the program's own": """
class Own(DistributedSampler):
    def __iter__(self):
        self.epoch += 1
        return super().__iter__()

loader = DataLoader(data, batch_size=8, sampler=Own(data, 1, 0))
for epoch in range(3):
    train(loader)
""",
    "batches that are put in order anew": """
class Batches(BatchSampler):
    def __iter__(self):
        batches = list(super().__iter__())
        return iter([batches[i] for i in torch.randperm(len(batches))])

loader = DataLoader(data, batch_sampler=Batches(sampler, 8, False))
for epoch in range(3):
    train(loader)
""",
}
WRONG = {
    "in a function": """
for epoch in range(3):
    train(loader)
""",
    "in batches": """
loader = DataLoader(data, batch_sampler=BatchSampler(sampler, 8, False))
for epoch in range(3):
    train(loader)
""",
    "by its place among the arguments": """
loader = DataLoader(data, 8, False, sampler)
for epoch in range(3):
    train(loader)
""",
    "with a loader beside it for validation": """
validation = DataLoader(data, batch_size=8)
for epoch in range(3):
    train(loader)
    with torch.no_grad():
        for (x,) in validation:
            print(model(x).mean())
""",
}


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_right_programs_are_silent_read_and_run(code: str, tmp_path: Path) -> None:
    assert told(HEAD + code) == []
    assert run(tmp_path, HEAD + code, header="").found == []


@pytest.mark.parametrize("code", WRONG.values(), ids=WRONG)
def test_wrong_programs_are_found_read_and_run(code: str, tmp_path: Path) -> None:
    loop = run(tmp_path, HEAD + code, header="")

    assert told(HEAD + code) == ["GK505"]
    assert loop.found == [f"GK505:{loop.line('# here')}"]


BY_SETTING = """
import sys
distributed = "--distributed" in sys.argv
if distributed:
    sampler = DistributedSampler(data)
else:
    sampler = None
loader = DataLoader(data, batch_size=8, shuffle=sampler is None, sampler=sampler)
for epoch in range(3):
    train(loader)
"""


def test_a_sampler_that_an_option_asks_for_is_found_too() -> None:
    assert told(HEAD + BY_SETTING) == ["GK505"]


UNSEEN = {
    "the sampler goes to code that is not seen": """
from elsewhere import Schedule
schedule = Schedule(sampler)
for epoch in range(3):
    schedule.begin(epoch)
    train(loader)
""",
    "its batches do": """
from elsewhere import Schedule
batches = BatchSampler(sampler, 8, False)
schedule = Schedule(batches)
loader = DataLoader(data, batch_sampler=batches)
for epoch in range(3):
    schedule.begin(epoch)
    train(loader)
""",
    "the loader does": """
from elsewhere import callbacks
for epoch in range(3):
    callbacks.on_epoch(loader, epoch)
    train(loader)
""",
    "Accelerate prepares the loader": """
from accelerate import Accelerator
loader = Accelerator().prepare(loader)
for epoch in range(3):
    train(loader)
""",
    "Fabric sets the loader up": """
from lightning.fabric import Fabric
loader = Fabric().setup_dataloaders(loader)
for epoch in range(3):
    train(loader)
""",
    "shuffled or not, who knows": """
import sys
sampler = DistributedSampler(data, shuffle="--shuffle" in sys.argv)
loader = DataLoader(data, batch_size=8, sampler=sampler)
for epoch in range(3):
    train(loader)
""",
}


@pytest.mark.parametrize("code", UNSEEN.values(), ids=UNSEEN)
def test_who_may_have_told_it_out_of_sight_is_given_the_benefit(code: str) -> None:
    assert told(HEAD + code) == []


WORKERS = """
loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=1, persistent_workers=True)
for epoch in range(3):
    train(loader)
"""


def test_workers_that_persist_hide_nothing(tmp_path: Path) -> None:
    assert [one[:5] for one in run(tmp_path, HEAD + WORKERS, header="").found] == ["GK505"]
