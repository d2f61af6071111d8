"""Gradients that are zeroed, spent and saved by a detour: contexts, hooks, groups, f-strings."""

import pytest

from gradkeeper.lint import check_source
from gradkeeper.rules import ALL
from tests.lint.linting import HEAD, findings, loop, possible, told


def test_the_body_of_a_with_runs_where_its_context_manager_yields() -> None:
    head = (
        "from contextlib import contextmanager\n"
        + HEAD
        + """
@contextmanager
def update():
    {first}
    yield
    {last}
"""
    )
    body = "with update():\n    model(x).mean().backward()"

    right = head.format(first="optimizer.zero_grad()", last="optimizer.step()")
    wrong = head.format(first="pass", last="optimizer.step()")

    assert told(loop(body, head=right)) == []
    assert told(loop(body, head=wrong)) == ["GK101"]


def test_a_context_that_goes_to_code_out_of_sight_may_step_there() -> None:
    head = """\
from contextlib import ExitStack, contextmanager

{head}
@contextmanager
def update():
    optimizer.zero_grad()
    yield
    optimizer.step()
"""
    entered = "with ExitStack() as stack:\n    stack.enter_context(update())\n    {backward}"
    backward = "model(x).mean().backward()"

    assert told(loop(entered.format(backward=backward), head=head.format(head=HEAD))) == []
    assert told(loop(backward, head=HEAD)) == ["GK107"]


RECORDS = {
    "typing.NamedTuple": """
from typing import NamedTuple
class State(NamedTuple):
    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: int = 0
state = State(model, optimizer)
def after(state):
    return state._replace(step=state.step + 1)
""",
    "namedtuple": """
from collections import namedtuple
State = namedtuple("State", "model, optimizer step")
state = State(model, optimizer=optimizer, step=0)
def after(state):
    net, opt, step = state
    return state._replace(step=step + 1)
""",
    "dataclass": """
import dataclasses
@dataclasses.dataclass(frozen=True)
class State:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: int = 0
state = State(model, optimizer)
def after(state):
    return dataclasses.replace(state, step=state.step + 1)
""",
}


@pytest.mark.parametrize("head", RECORDS.values(), ids=RECORDS)
def test_a_record_that_is_replaced_each_round_keeps_its_model_and_optimizer(head: str) -> None:
    body = "{zero}\nstate.model(x).mean().backward()\nstate.optimizer.step()\nstate = after(state)"
    right = body.format(zero="state.optimizer.zero_grad()")

    assert told(loop(right, head=HEAD + head)) == []
    assert told(loop(body.format(zero=""), head=HEAD + head)) == ["GK101"]


@pytest.mark.parametrize(
    ("brought", "decorator"),
    [
        ("from functools import cached_property", "cached_property"),
        ("import functools", "functools.cached_property"),
    ],
)
def test_a_cached_property_is_computed_once(brought: str, decorator: str) -> None:
    head = f"""
import torch
from torch import nn
{brought}

class Experiment:
    @{decorator}
    def model(self):
        return nn.Linear(4, 1)

    @{decorator}
    def optimizer(self):
        return torch.optim.Adam(self.model.parameters())

run = Experiment()
"""
    body = "{zero}\nrun.model(x).mean().backward()\nrun.optimizer.step()"

    assert told(loop(body.format(zero="run.optimizer.zero_grad()"), head=head)) == []
    assert told(loop(body.format(zero=""), head=head)) == ["GK101"]


def test_a_class_may_be_the_context_as_well() -> None:
    head = (
        HEAD
        + """
class Update:
    def __enter__(self):
        optimizer.zero_grad()
    def __exit__(self, *error):
        optimizer.step()
"""
    )

    assert told(loop("with Update():\n    model(x).mean().backward()", head=head)) == []


def test_a_hook_after_the_step_zeroes_and_one_before_it_does_not() -> None:
    head = HEAD + "def clear(opt, args, kwargs):\n    opt.zero_grad()\n\n"
    body = "model(x).mean().backward()\noptimizer.step()"

    after = head + "optimizer.register_step_post_hook(clear)\n"

    assert told(loop(body, head=after)) == []
    assert told(loop(body, head=head)) == ["GK101"]


def test_zeroing_group_by_group_is_zeroing_and_one_group_is_not_all() -> None:
    head = """\
import torch
from torch import nn

model = nn.Linear(4, 1)
weights = [p for p in model.parameters() if p.dim() > 1]
biases = [p for p in model.parameters() if p.dim() == 1]
optimizer = torch.optim.Adam([{"params": weights}, {"params": biases, "lr": 0.1}])

def clear(group):
    for p in group["params"]:
        p.grad = None

"""
    update = "model(x).mean().backward()\noptimizer.step()\n"

    both = "clear(optimizer.param_groups[0])\nclear(optimizer.param_groups[1])\n" + update
    first = "clear(optimizer.param_groups[0])\n" + update

    assert told(loop(both, head=head)) == []
    assert "GK602" in told(loop(first, head=head))


def test_training_inside_an_f_string_is_training() -> None:
    code = HEAD + (
        "def train(loader):\n"
        "    for x in loader:\n"
        "        model(x).mean().backward()\n"
        "        optimizer.step()\n"
        "    return 0.0\n"
        'print(f"loss {train(torch.randn(8, 4, 4)):.3f}")\n'
    )

    assert told(code) == ["GK101"]


def test_a_discard_on_one_branch_is_possible_and_not_certain() -> None:
    code = loop(
        """
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        if loss.item() > limit:
            optimizer.zero_grad()
            continue
        optimizer.step()
        """
    )

    assert told(code) == []
    assert possible(code)


BEST = """
best = 100.0
for i, x in enumerate([torch.randn(2, 4) for _ in range(5)]):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    {step}
    {asked}
        best = loss.item()
        torch.save([model.state_dict(), optimizer.state_dict()], "best.pt")
"""
BETTER = "if loss.item() < best:"


def test_what_a_checkpoint_of_the_best_leaves_out_is_possible_and_not_certain() -> None:
    """The last round may save though the step before has not been saved."""
    some = HEAD + BEST.format(step="if (i + 1) % 2 == 0: optimizer.step()", asked=BETTER)
    each = HEAD + BEST.format(step="optimizer.step()", asked=BETTER)

    assert (told(some), possible(some)) == (["GK102"], {"GK401"})
    assert (told(each), possible(each)) == ([], set())


def test_what_is_left_at_the_end_is_lost_for_certain_only_where_the_last_round_saves() -> None:
    best = HEAD + BEST.format(step="pass", asked=BETTER)
    last = HEAD + BEST.format(step="pass", asked="if True:")

    assert (told(best), possible(best)) == (["GK107"], {"GK401"})
    assert (told(last), possible(last)) == (["GK107", "GK401"], set())


def test_draws_of_an_inner_loop_are_batches_and_time_steps_are_not() -> None:
    body = """
    optimizer.zero_grad()
    {outer}
    for {name} in range(4):
        {inner}
        F.mse_loss(model(x), x).backward()
    optimizer.step()
    """
    draw = "x = torch.randn(8, 4)"

    draws = body.format(outer="pass", name="_", inner=draw)
    steps = body.format(outer=draw, name="t", inner="pass")

    assert told(loop(draws, over="for i in range(9):")) == ["GK201"]
    assert told(loop(steps, over="for i in range(9):")) == []


def test_of_a_pair_that_is_assigned_at_once_each_is_known_by_its_own_name() -> None:
    code = """
    import torch
    from torch import nn

    G, D = nn.Linear(2, 4), nn.Linear(4, 1)
    og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    for step in range(12):
        fake = G(torch.randn(8, 2))
        D(fake.detach()).mean().backward()
        od.step()
        od.zero_grad()
        og.zero_grad()
        D(fake).mean().neg().backward()
        og.step()
    """

    (finding,) = [one for one in findings(code) if one.rule == "GK104"]

    assert "`og`" in finding.message
    assert finding.remedy.startswith("od.zero_grad()")


def test_each_of_many_tensors_is_cleared_in_its_turn() -> None:
    code = """
    import torch
    from torch.autograd import Variable

    a, b = Variable(torch.randn(4, 4), requires_grad=True), Variable(torch.zeros(4), True)
    c, d = Variable(torch.randn(4, 4), requires_grad=True), Variable(torch.zeros(4), True)
    e, f = torch.randn(4, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
    g, h = torch.randn(4, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
    i, j = torch.randn(4, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
    weights = [a, b, c, d, e, f, g, h, i, j]
    optimizer = torch.optim.Adam(weights)
    for x in loader:
        y = (((x @ a + b) @ c + d) @ e + f) @ g + h
        (y @ i + j).mean().backward()
        optimizer.step()
        for weight in {cleared}:
            if weight.grad is not None:
                weight.grad = Variable(torch.zeros_like(weight.grad.data))
    """

    assert told(code.format(cleared="weights")) == []
    assert told(code.format(cleared="[a, b]")) == ["GK101"]


def test_gradients_of_tensors_that_are_not_seen_may_be_set_by_hand() -> None:
    code = """
    def train(optimizer, loader, loss_of, held):
        for x in loader:
            loss_of(x).backward()
            optimizer.step()
            for tensor in held.tensors:
                tensor.{what} = None
    """

    assert told(code.format(what="grad")) == []
    assert told(code.format(what="note")) == ["GK101"]


def test_an_optimizers_own_method_reads_gradients_unless_its_name_is_harmless() -> None:
    body = "model(x).mean().backward()\noptimizer.{method}()\noptimizer.zero_grad()"

    assert told(loop(body.format(method="update_hessian"))) == []
    assert told(loop(body.format(method="update_lr"))) != []


def test_another_librarys_gradients_follow_its_own_laws() -> None:
    code = "import {library}\n\ndef fit(net, trainer, loader):\n    for x in loader:\n"
    code += "        net(x).mean().backward()\n        trainer.optimizer.step(1)\n"

    assert told(code.format(library="torch")) == ["GK101"]
    assert told(code.format(library="mxnet")) == []


BY_SETTING = """\
import argparse
import torch
from torch import nn
args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 1)
optimizers = {
    "sgd": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    "adam": torch.optim.Adam(model.parameters(), lr=0.01),
    "adagrad": torch.optim.Adagrad(model.parameters(), lr=0.01),
}
optimizer = optimizers[args.optimizer]
for x in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


def test_one_of_several_optimizers_is_chosen_by_a_setting() -> None:
    assert told(BY_SETTING) == []
    assert told(BY_SETTING.replace("    optimizer.zero_grad()\n", "")) == ["GK101"]


TRAINERS = """\
import argparse
import torch
from torch import nn

class Plain:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def learn(self, x):
        self.optimizer.zero_grad()
        self.model(x).mean().backward()
        self.optimizer.step()

class Other(Plain):
    def learn(self, x):
        self.optimizer.zero_grad()
        self.model(x).square().mean().backward()
        self.optimizer.step()

TRAINERS = {"plain": Plain, "other": Other}
args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 1)
trainer = TRAINERS[args.trainer](model, torch.optim.Adam(model.parameters()))
for x in loader:
    trainer.learn(x)
"""


def test_one_of_several_classes_is_chosen_by_a_setting() -> None:
    first, _, last = TRAINERS.rpartition("        self.optimizer.zero_grad()\n")

    assert told(TRAINERS) == []
    assert told(TRAINERS.replace("        self.optimizer.zero_grad()\n", "")) == ["GK101"] * 2
    assert told(first + last) == ["GK101"]


def test_one_of_several_optimizers_by_what_each_round_brings_is_not_known() -> None:
    by_data = BY_SETTING.replace("optimizer = optimizers[args.optimizer]\n", "").replace(
        "for x in loader:\n    optimizer.zero_grad()",
        "for x, kind in loader:\n    optimizer = optimizers[kind]",
    )

    assert told(by_data) == []


def test_what_is_put_into_a_queue_comes_out_at_either_end() -> None:
    head = "from collections import deque\n" + HEAD
    body = """
waiting = deque()
waiting.appendleft(model(x).mean())
optimizer.zero_grad()
waiting.popleft().backward()
optimizer.step()
"""

    assert told(loop(body, head=head)) == []
    assert told(loop(body.replace("optimizer.zero_grad()\n", ""), head=head)) == ["GK101"]


CALLED_OBJECT = """
import torch
from torch import nn

class Compute:
    def __init__(self, optimizer):
        self.optimizer, self.count = optimizer, 0

    def __call__(self, loss):
        {loss}.backward()
        self.count += 1
        if self.count == 4:
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.count = 0

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{made}

def epoch(data, compute):
    for x in data:
        compute(nn.functional.mse_loss(model(x), x[:, :1]))

for _ in range(3):
    epoch(torch.randn(16, 8, 4), {given})
"""


@pytest.mark.parametrize(
    ("made", "given"),
    [("accumulate = Compute(optimizer)", "accumulate"), ("", "Compute(optimizer)")],
    ids=["kept in a variable", "made where it is handed over"],
)
def test_an_object_that_is_called_may_train(made: str, given: str) -> None:
    whole = CALLED_OBJECT.format(made=made, given=given, loss="loss")
    divided = CALLED_OBJECT.format(made=made, given=given, loss="(loss / 4)")

    assert told(whole) == ["GK201"]
    assert told(divided) == []
    assert check_source(divided, "train.py", ALL).rehearsed == 1


WHOLE_GRAPH = """
import torch
from elsewhere import MeshNet, graph

model = MeshNet(3).to("cpu")
optimizer = torch.optim.Adam(model.parameters())
places = torch.tensor(graph.places, requires_grad=True)
for i in range(10):
    out = {out}
    loss = torch.mean((places - out) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_network_out_of_sight_that_sees_the_same_graph_each_time_is_trained_all_the_same() -> (
    None
):
    assert told(WHOLE_GRAPH.format(out="model(graph.x)")) == []
    assert told(WHOLE_GRAPH.format(out="graph.y")) == ["GK103"]


CAPTURED = """
optimizer.zero_grad(set_to_none=True)
x = torch.randn(8, 4)
captured = torch.cuda.CUDAGraph()
with torch.cuda.graph(captured):
    model(x).mean().backward()
for i in range(10):
    x.copy_(torch.randn(8, 4))
    {again}
    optimizer.step()
"""


def test_a_captured_graph_writes_its_gradients_anew() -> None:
    assert told(HEAD + CAPTURED.format(again="captured.replay()")) == []
    assert told(HEAD + CAPTURED.format(again="pass")) == ["GK101"]


def test_a_loss_whose_backward_somebody_has_made_may_do_anything() -> None:
    head = HEAD + "from unittest.mock import MagicMock\nloss = MagicMock()\n{made}\n"
    body = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()"

    assert told(loop(body, head=head.format(made="loss.backward = MagicMock()"))) == []
