from pathlib import Path

import pytest

from gradkeeper.rules.optimizer_not_restored import rule
from tests.lint.linting import told
from tests.script import Script, block, marked, over_model, reasons
from tests.watcher.loops import run


def resumed(script: Script, *, path: str = "last.pt") -> None:
    script.restore("model.load_state_dict(", accounts=("model",), path=path)
    for _ in range(2):
        script.zero("optimizer.zero_grad()", accounts=("model",))
        script.backward("backward()", accounts=("model",))
        script.spend()


def save(script: Script, *, path: str = "last.pt") -> None:
    script.save("torch.save(", accounts=("model",), optimizers=("optimizer",), path=path)


def test_a_resume_without_the_optimizer_is_reported_where_the_weights_are_loaded() -> None:
    script = over_model(block(rule, "bad"))
    resumed(script)
    save(script)
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK404:11"]
    (finding,) = [one for one in script.findings() if one.rule == rule.code]
    assert finding.message == (
        "load_state_dict() brings back the weights, and nothing the state of `optimizer`"
    )
    assert finding.remedy == "optimizer.load_state_dict() beside it"
    assert reasons(finding) == [(17, "writes both to the same file")]


def test_a_resume_with_the_optimizer_is_silent() -> None:
    script = over_model(block(rule, "good"))
    script.restore("optimizer.load_state_dict(", accounts=(), optimizers=("optimizer",))
    resumed(script)
    save(script)
    script.close()

    assert script.findings() == []


def test_weights_of_another_file_are_a_warm_start() -> None:
    script = over_model(block(rule, "bad"))
    resumed(script, path="pretrained.pt")
    save(script)
    script.close()

    assert script.findings() == []


def test_an_optimizer_out_of_sight_may_have_been_restored_there() -> None:
    script = over_model(block(rule, "bad"))
    script.escape("import torch", optimizers=("optimizer",))
    resumed(script)
    save(script)
    script.close()

    assert script.lines_of(rule) == []


def test_one_that_remembers_nothing_has_nothing_to_lose() -> None:
    script = block(rule, "bad")
    script.build("model", stateful=False)
    resumed(script)
    save(script)
    script.close()

    assert script.findings() == []


HEAD = """\
import os
import sys
import torch

"""
TRAIN = """
def train(read, write):
    model = torch.nn.Linear(4, 1)
    {before}
    optimizer = torch.optim.{kind}
    {after}
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    {end}

"""
LOAD = "if os.path.exists(read): model.load_state_dict(torch.load(read)['model'])  # here"
BOTH = "torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, write)"
WEIGHTS = "torch.save({'model': model.state_dict()}, write)"
ADAM, PLAIN = "Adam(model.parameters())", "SGD(model.parameters(), lr=0.1)"
TWICE = "train('last.pt', 'last.pt')\ntrain('last.pt', 'last.pt')\n"


def script_of(calls: str = TWICE, **parts: str) -> str:
    known = {"before": "", "kind": ADAM, "after": "", "end": BOTH}
    return HEAD + TRAIN.format(**{**known, **parts}) + calls


TRAINER = """
class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        if os.path.exists("last.pt"):
            self._load(torch.load("last.pt"))

    def _load(self, state):
        self.model.load_state_dict(state["model"])  # here
        {more}

    def _save(self):
        state = {{"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}}
        torch.save(state, "last.pt")

    def train(self):
        for _ in range(2):
            for x in torch.randn(4, 8, 4):
                self.optimizer.zero_grad()
                self.model(x).square().mean().backward()
                self.optimizer.step()
            self._save()


Trainer().train()
Trainer().train()
"""


RIGHT = {
    "a trainer that loads and saves in methods of its own": HEAD
    + TRAINER.format(more="self.optimizer.load_state_dict(state['optimizer'])"),
    "a warm start from another file": script_of(
        "train('none', 'first.pt')\ntrain('first.pt', 'second.pt')\n", after=LOAD
    ),
    "weights alone are saved": script_of(after=LOAD, end=WEIGHTS),
    "nothing is remembered": script_of(after=LOAD, kind=PLAIN),
    "nothing is loaded": script_of(),
    "loaded at the end, for an evaluation": script_of(
        end=f"{BOTH}\n    model.load_state_dict(torch.load(write)['model'])\n    print(model)"
    ),
    "the optimizer by a helper": script_of(
        after="restore(model, optimizer, read)",
        calls="""
def restore(model, optimizer, path):
    if os.path.exists(path):
        state = torch.load(path)
        for one, name in ((model, "model"), (optimizer, "optimizer")):
            one.load_state_dict(state[name])

"""
        + TWICE,
    ),
    "the best weights, into a second stage of another line": HEAD
    + """
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, "best.pt")

tuned = torch.nn.Linear(4, 1)
tuned.load_state_dict(torch.load("best.pt")["model"])
second = torch.optim.Adam(tuned.parameters(), lr=1e-4)
for _ in range(4):
    second.zero_grad()
    tuned(torch.randn(8, 4)).square().mean().backward()
    second.step()
torch.save({'model': tuned.state_dict(), 'optimizer': second.state_dict()}, "best.pt")
""",
}
WRONG = {
    "after the optimizer was built": script_of(after=LOAD),
    "before the optimizer is built": script_of(before=LOAD),
    "a trainer that loads and saves in methods of its own": HEAD + TRAINER.format(more=""),
}


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_right_programs_are_silent_read_and_run(code: str, tmp_path: Path) -> None:
    assert told(code) == []
    assert run(tmp_path, code, header="").found == []


@pytest.mark.parametrize("code", WRONG.values(), ids=WRONG)
def test_wrong_programs_are_found_read_and_run(code: str, tmp_path: Path) -> None:
    loop = run(tmp_path, code, header="")

    assert told(code) == ["GK404"]
    assert loop.found == [f"GK404:{loop.line('# here')}"]


def test_a_run_that_goes_on_is_found_in_its_own_process(tmp_path: Path) -> None:
    code = script_of("train('last.pt', 'last.pt')\n", after=LOAD)

    assert run(tmp_path, code, header="").found == []
    assert [one[:5] for one in run(tmp_path, code, header="").found] == ["GK404"]


MENTIONED = script_of(
    "train('last.pt', 'last.pt')\n",
    after=f"{LOAD}\n    if '--all' in sys.argv: optimizer.load_state_dict(torch.load(read)['o'])",
)


def test_a_line_that_another_run_may_pass_is_given_the_benefit() -> None:
    assert told(MENTIONED) == []


UNSEEN = script_of(
    "from elsewhere import resume_state\ntrain('last.pt', 'last.pt')\n",
    after=f"{LOAD}\n    resume_state(optimizer, read)",
)


def test_code_that_is_not_seen_may_have_done_it() -> None:
    assert told(UNSEEN) == []
