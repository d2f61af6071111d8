"""What the user calls an optimizer, however it was built."""

from pathlib import Path

import pytest
import torch

from gradkeeper.model.events import Adopt
from tests.watcher.loops import run

SETUP = """
class Helper:
    def setup(self, model, optimizer):
        return model, optimizer

    def backward(self, loss):
        loss.backward()

class Wrapped(torch.optim.Optimizer):
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.step()

helper = Helper()
model = nn.Linear(4, 1)
BUILT
for i, x in enumerate(torch.randn(8, 8, 4)):
    helper.backward(model(x).square().mean() / 4)
    if i % 4 == 3:
        USED.step()
        model.zero_grad()
"""
SGD = "torch.optim.SGD(model.parameters(), lr=0.1)"


def test_a_wrapper_without_parameters_from_before_the_watch_does_no_harm(tmp_path: Path) -> None:
    built = SETUP.replace("BUILT", f"sgd = Wrapped({SGD})").replace("USED", "sgd")
    left = run(tmp_path, built)

    assert isinstance(left.variables["sgd"], torch.optim.Optimizer)
    assert run(tmp_path, built.replace("model.zero_grad()", "pass")).found != []


@pytest.mark.parametrize(
    ("built", "used"),
    [
        (f"sgd = {SGD}", "sgd"),
        (f"model, sgd = helper.setup(model, {SGD})", "sgd"),
        (f"model, sgd = helper.setup(model, Wrapped({SGD}))", "sgd"),
        (f"helper.sgd = {SGD}", "helper.sgd"),
    ],
)
def test_an_optimizer_has_the_name_it_is_used_by(built: str, used: str, tmp_path: Path) -> None:
    loop = run(tmp_path, SETUP.replace("BUILT", built).replace("USED", used))

    names = [one.optimizer for one in loop.watch.tape if isinstance(one, Adopt)]
    assert names == [used]
    assert loop.found == []
