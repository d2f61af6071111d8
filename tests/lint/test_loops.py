"""How long a loop is rehearsed, and that its end is not taken for the program's."""

import ast
from textwrap import dedent

import pytest

from gradkeeper.lint.explore import roots
from gradkeeper.lint.imports import Project
from gradkeeper.lint.interpreter.facts import Facts
from gradkeeper.lint.run import Program
from gradkeeper.rules import ALL
from tests.lint.linting import HEAD, loop, told

RUNNING = """
data = [torch.randn(8, 4) for _ in range(10)]
count = 0
for epoch in range({epochs}):
    for x in data:
        count += 1
        (F.mse_loss(model(x), x) / 6).backward()
        if count % 6 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
COUNTED = """
step = 0
while step < {steps}:
    (F.mse_loss(model(x), y) / 4).backward()
    step += 1
    if step % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_window_that_runs_across_epochs_ends_where_the_last_epoch_does() -> None:
    assert told(HEAD + RUNNING.format(epochs=3)) == []
    assert told(HEAD + RUNNING.format(epochs=30)) == []
    assert told(HEAD + RUNNING.format(epochs=4)) == ["GK203"]


HOLDS_ITSELF = """
for x in loader:
    states = []
    for _ in range(4):
        states.{put}
    if states:
        {zero}
    F.mse_loss(model(torch.stack(states)), x).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("put", ["append(states)", "insert(0, states)", "append([states])"])
def test_a_list_that_holds_itself_is_not_walked_through_for_ever(put: str) -> None:
    assert told(HEAD + HOLDS_ITSELF.format(put=put, zero="optimizer.zero_grad()")) == []
    assert told(HEAD + HOLDS_ITSELF.format(put=put, zero="pass")) == ["GK101"]


def test_a_tail_that_hangs_on_the_number_of_epochs_is_not_certain() -> None:
    assert told(HEAD + RUNNING.format(epochs="args.epochs")) == []


def test_a_tail_that_each_epoch_leaves_is_certain_for_any_number_of_epochs() -> None:
    code = HEAD + RUNNING.format(epochs="args.epochs").replace(
        "    for x in", "    count = 0\n    for x in"
    )

    assert told(code) == ["GK202"]


def test_a_while_loop_that_counts_is_run_to_its_end() -> None:
    assert told(HEAD + COUNTED.format(steps=24)) == []
    assert told(HEAD + COUNTED.format(steps=26)) == ["GK203"]


def test_a_while_loop_too_long_to_run_leaves_no_tail_where_we_stop() -> None:
    code = HEAD + COUNTED.format(steps=1000).replace("step % 4", "(step + 2) % 4")

    assert "GK203" not in told(code)


def test_losses_of_one_batch_are_no_window_however_they_are_iterated() -> None:
    for header in (
        "for out in outs:",
        "for k, out in enumerate(outs):",
        "for out, h in zip(outs, y):",
    ):
        code = f"""{HEAD}
for x, y in loader:
    optimizer.zero_grad()
    outs = [model(x), model(x * 2), model(x * 3)]
    {header}
        F.mse_loss(out, x).backward(retain_graph=True)
    optimizer.step()
"""

        assert told(code) == []


ENDLESS = """
def stream():
    while True:
        yield torch.randn(8, 4)

rest = iter(stream())
seen = 0
while True:
    x = next(rest{default})
    {test}
    (F.mse_loss(model(x), x) / 4).backward()
    seen += 1
    if seen % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
    if enough(x):
        break
"""


def test_a_while_loop_over_an_endless_generator_is_no_round_longer_than_a_for_loop() -> None:
    asking = ENDLESS.format(default=", None", test="if x is None: break")
    over = asking.replace("while True:\n    x = next(rest, None)", "for x in stream():")

    assert told(HEAD + over) == told(HEAD + asking) == []


def test_what_next_hands_out_before_its_default_is_something() -> None:
    code = """
for window in windows():
    rest = iter(window)
    while True:
        x = next(rest, None)
        if x is None:
            break
        F.mse_loss(model(x), x, reduction="sum").backward()
    optimizer.step()
"""

    assert told(HEAD + code) == ["GK101"]
    assert told(HEAD + code + "    optimizer.zero_grad()\n") == []


def test_a_backward_that_was_forgotten_leaves_steps_with_nothing_also_behind_a_gate() -> None:
    code = """
for i, x in enumerate(loader):
    optimizer.zero_grad(set_to_none=False)
    loss = F.mse_loss(model(x), x)
    {backward}
    if (i + 1) % 2 == 0:
        optimizer.step()
"""

    assert told(HEAD + code.format(backward="pass")) == ["GK103"]
    assert "GK103" not in told(HEAD + code.format(backward="loss.backward()"))


def test_an_optimizer_for_each_epoch_is_not_one_for_every_step() -> None:
    """Where each batch has a loop over losses."""
    code = """
for epoch in range(3):
    optimizer = torch.optim.Adam(model.parameters())
    for x in loader:
        {build}
        optimizer.zero_grad()
        for part in (model(x).mean(), model(x).square().mean()):
            part.backward()
        optimizer.step()
"""

    assert told(HEAD + code.format(build="pass")) == []
    again = "optimizer = torch.optim.Adam(model.parameters())"
    assert told(HEAD + code.format(build=again)) == ["GK604"]


def test_windows_counted_up_to_a_number_are_long_enough_to_see_two_of_them() -> None:
    code = """
count = 0
for i, x in enumerate(stream()):
    F.mse_loss(model(x), x).backward()
    count += 1
    if count >= 2:
        optimizer.step()
        optimizer.zero_grad()
        count = 0
"""

    assert told(HEAD + code) == ["GK201"]
    assert (
        told(HEAD + code.replace("F.mse_loss(model(x), x)", "(F.mse_loss(model(x), x) / 2)")) == []
    )


def test_behind_an_exit_nothing_happens() -> None:
    code = """
import sys
for x in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
{exit}
for x in loader:
    model(x).mean().backward()
    optimizer.step()
"""

    assert told(HEAD + code.format(exit="sys.exit()")) == []
    assert told(HEAD + code.format(exit="if len(sys.argv) > 1: sys.exit()")) == ["GK101"]
    assert told(HEAD + code.format(exit="def fail(): sys.exit(1)")) == ["GK101"]


def test_a_setting_that_only_a_guard_reads_is_known() -> None:
    code = """
import argparse
args = argparse.Namespace(accumulate=2)
for i, x in enumerate(torch.randn(6, 2, 4)):
    {zero}
    F.mse_loss(model(x), x, reduction="sum").backward()
    if (i + 1) % args.accumulate:
        continue
    optimizer.step()
    {after}
"""

    assert told(HEAD + code.format(zero="optimizer.zero_grad()", after="pass")) == ["GK102"]
    assert told(HEAD + code.format(zero="pass", after="optimizer.zero_grad()")) == []


def test_what_is_cycled_comes_again_though_a_generator_gave_it() -> None:
    code = """
import itertools

def stream():
    for _ in range(6):
        yield torch.randn(2, 4)

for i, x in zip(range({rounds}), itertools.cycle(stream())):
    (F.mse_loss(model(x), x) / 3).backward()
    if (i + 1) % 3 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""

    assert told(HEAD + code.format(rounds=8)) == ["GK203"]
    assert told(HEAD + code.format(rounds=9)) == []


def test_what_is_cycled_fills_windows_as_it_did_the_first_time() -> None:
    code = """
import itertools
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(6, 4)), batch_size=2)
for i, (x,) in zip(range({rounds}), itertools.cycle(loader)):
    (model(x).square().mean() / 2).backward()
    if (i + 1) % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""

    assert told(HEAD + code.format(rounds=7)) == ["GK203"]
    assert told(HEAD + code.format(rounds=6)) == []


def test_a_bound_on_all_rounds_does_not_cut_them_short() -> None:
    code = """
import argparse
from torch.utils.data import DataLoader
from elsewhere import Images

parser = argparse.ArgumentParser()
parser.add_argument("--most", type=int, default=30000)
args = parser.parse_args()
images = DataLoader(Images())
seen = 0
for epoch in range(args.most // len(images) + 1):
    for x in images:
        {zero}
        model(x).mean().backward()
        optimizer.step()
        seen = seen + 1
        if seen >= args.most:
            break
    if seen >= args.most:
        break
"""

    assert told(HEAD + code.format(zero="pass")) == ["GK101"]
    assert told(HEAD + code.format(zero="optimizer.zero_grad()")) == []


def test_an_average_that_is_kept_of_the_weights_is_no_second_step() -> None:
    code = """
from elsewhere import make

def created(average=False):
    net = make(channels=1)
    made = net.cuda()
    if average:
        for one in made.parameters():
            one.detach_()
    return made

model, average = created(), created(average=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(loader):
    {zero}
    model(x).mean().backward()
    {step}
    for kept, new in zip(average.parameters(), model.parameters()):
        kept.data.mul_(0.9).add_(new.data)
    if i >= most:
        break
"""
    zero, step = "optimizer.zero_grad()", "optimizer.step()"

    assert told(HEAD + code.format(zero=zero, step=step)) == []
    assert told(HEAD + code.format(zero="pass", step=step)) == ["GK101"]
    assert told(HEAD + code.format(zero=zero, step="pass")) == ["GK107"]
    assert told(HEAD + code.format(zero="pass", step=f"{zero}; {step}")) == ["GK102"]


def test_losses_of_data_that_was_made_before_are_no_window_either() -> None:
    code = """
data = [torch.randn(2, 4) for _ in range(6)]
for x in data:
    optimizer.zero_grad()
    for part in ({parts}):
        part.backward()
    optimizer.step()
"""

    assert told(HEAD + code.format(parts="model(x).mean(), model(x).square().mean()")) == []
    assert told(HEAD + code.format(parts="model(y).mean() for y in data")) == ["GK201"]


def test_a_loss_with_a_sum_in_it_is_taken_for_no_mean() -> None:
    code = """
accumulation = 2
for i, x in enumerate(loader):
    fit = F.mse_loss(model(x), x, reduction="{one}")
    sum({{"fit": fit, "size": model(x).mean()}}.values()).backward()
    if (i + 1) % accumulation == 0:
        optimizer.step()
        optimizer.zero_grad()
"""

    assert told(HEAD + code.format(one="sum")) == []
    assert told(HEAD + code.format(one="mean")) == ["GK201"]


def test_windows_are_seen_also_where_each_batch_has_a_loop_over_its_losses() -> None:
    code = """
for i, x in enumerate(stream()):
    for part in (model(x).mean(), model(x).square().mean()):
        (part / 2).backward()
    if (i + 1) % 2 == 0:
        optimizer.step()
        {zero}
"""

    assert told(HEAD + code.format(zero="pass")) == ["GK101"]
    assert told(HEAD + code.format(zero="optimizer.zero_grad()")) == []


def test_how_much_data_there_is_may_be_what_somebody_waits_for() -> None:
    code = """
from elsewhere import Base

class Joint(Base):
    def end_task(self, dataset):
        if len(dataset.loaders) != dataset.tasks:
            return
        for x in dataset.all():
            {zero}
            self.net(x).mean().backward()
            self.optimizer.step()
"""

    assert told(HEAD + code.format(zero="pass")) == ["GK101"]
    assert told(HEAD + code.format(zero="self.optimizer.zero_grad()")) == []


def test_an_input_whose_gradient_nobody_reads_excuses_nothing() -> None:
    code = """
for x in loader:
    optimizer.zero_grad()
    x.requires_grad = True
    model(x).mean().backward()
    {rest}
"""

    assert told(HEAD + code.format(rest="optimizer.step()")) == []
    assert told(HEAD + code.format(rest="print(x)")) == ["GK107"]
    assert told(HEAD + code.format(rest="x.data += 0.1 * x.grad.sign()")) == []
    given = "def train(model, optimizer, loader):\n    " + code.strip().replace("\n", "\n    ")
    assert told(given.format(rest="optimizer.step()")) == []
    assert told(given.format(rest="print(x)")) == ["GK107"]


def remainders(code: str) -> tuple[Facts, list[ast.BinOp]]:
    """What one look tells of a program, and the remainders in it, as they are written."""
    tree = ast.parse(dedent(code).strip())
    facts = Facts()
    facts.add([(tree, "train.py")])
    facts.survey()
    return facts, [node for node in ast.walk(tree) if isinstance(node, ast.BinOp)]


@pytest.mark.parametrize("name", ["step", "position"])
def test_a_number_that_is_called_as_some_function_is_ends_no_window(name: str) -> None:
    """`self.step % 100` for a picture now and then, where a sampler of the project has a step()."""
    code = f"""
class Sampler:
    def step(self, x):
        self.optimizer.zero_grad()
        self.net(x).sum().backward()
        self.optimizer.step()

class Trainer:
    def train(self):
        self.{name} = 0
        while self.{name} < self.total:
            shows = self.{name} % 100 == 0
            self.optimizer.zero_grad()
            self.net(next(self.data)).mean().backward()
            self.optimizer.step()
            if shows:
                print(self.{name})
            self.{name} += 1
"""

    facts, found = remainders(code)

    assert [id(node) in facts.periods for node in found] == [False]


def test_a_function_that_is_called_by_that_name_may_end_one() -> None:
    code = """
class Trainer:
    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def train(self):
        for i, x in enumerate(self.data):
            self.net(x).mean().backward()
            ends = i % 4 == 3
            if ends:
                self.step()
"""

    facts, found = remainders(code)

    assert [id(node) in facts.periods for node in found] == [True]


def turning(code: str) -> list[int]:
    """The lines of the loops of which each round trains by itself."""
    tree = ast.parse(dedent(code).strip())
    facts = Facts()
    facts.add([(tree, "train.py")])
    facts.survey()
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
    return sorted(
        node.lineno for node in loops if {id(node)} & (facts.credits_itself | facts.feeds)
    )


def test_a_loop_around_a_function_that_trains_an_epoch_is_one_of_epochs() -> None:
    code = """
    for epoch in range(9):
        train_epoch(loader)
    def train_epoch(loader):
        for x in loader:
            net(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    """
    around = code.replace("train_epoch(loader)\n    def", "whole(loader)\n    def", 1) + (
        "def whole(loader):\n        train_epoch(loader)\n"
    )

    assert turning(code) == [4]
    assert turning(around) == [4]


def test_a_loop_around_a_function_that_trains_on_one_batch_is_one_of_batches() -> None:
    step = "net(x).mean().backward()\n        optimizer.step()\n        optimizer.zero_grad()"
    micro = "for part in x:\n            net(part).mean().backward()\n        optimizer.step()"
    beside = "for y in x:\n            pass\n        net(x).mean().backward()"
    for body in (step, micro, beside):
        code = f"""
    for x in loader:
        train(x)
    def train(x):
        {body}
    """
        assert 1 in turning(code), body


def test_what_an_epoch_leaves_is_the_same_in_a_function_of_its_own() -> None:
    inside = RUNNING.format(epochs="args.epochs")
    reset = inside.replace("    for x in", "    count = 0\n    for x in")

    for whole in (inside, reset):
        lines = whole.splitlines()
        start = next(n for n, line in enumerate(lines) if line.startswith("for epoch"))
        body = [
            "def train_epoch():",
            *(["    global count"] if whole is inside else []),
            *lines[start + 1 :],
        ]
        apart = [*lines[:start], *body, lines[start], "    train_epoch()"]

        assert told(HEAD + "\n".join(apart)) == told(HEAD + whole)


def test_a_while_loop_that_fetches_is_as_long_as_a_for_loop_around_turns_too() -> None:
    turns = """
{head}
    for turn in range(2):
        optimizer.zero_grad()
        F.mse_loss(model(x), x).backward()
        optimizer.step()
"""
    data = "data = [torch.randn(2, 4) for _ in range(6)]\n"
    asked = "rest = iter(data)\nwhile True:\n    x = next(rest, None)\n    if x is None: break"
    loops = [data + turns.format(head=head) for head in ("for x in data:", asked)]

    assert [steps_of(HEAD + loop) for loop in loops] == [12, 12]


REPLAY = """
import random
from collections import deque

memory = deque(maxlen=10000)

def replay(size):
    if len(memory) < size:
        return
    batch = torch.stack(random.sample(memory, size))
    {zero}
    F.mse_loss(model(batch), batch).backward()
    optimizer.step()

for episode in range(1000):
    state, done = env.reset(), False
    while {goes_on}:
        state, done = env.step(state)
        memory.append(state)
        replay(32)
        {ends}
"""


@pytest.mark.parametrize(
    ("goes_on", "ends"),
    [
        pytest.param("not done", "pass", id="until done"),
        pytest.param("True", "if done: break", id="for good"),
        pytest.param("len(state) < limit", "pass", id="up to a limit"),
    ],
)
def test_a_memory_that_fills_for_longer_than_is_rehearsed_is_full_one_day(
    goes_on: str, ends: str
) -> None:
    right = REPLAY.format(zero="optimizer.zero_grad()", goes_on=goes_on, ends=ends)
    wrong = REPLAY.format(zero="pass", goes_on=goes_on, ends=ends)

    assert told(HEAD + right) == []
    assert told(HEAD + wrong) == ["GK101"]


def steps_of(code: str) -> int:
    program = Program(Project({"train.py": ast.parse(code)}, None), ALL)
    return max(run.steps for runs in roots(program) for run in runs)


BY_WAY_OF_ANOTHER = """
class Memory:
    def __init__(self):
        self.rows, self.filled = torch.zeros(1000, 4), 0
    def store(self, row):
        self.rows[self.filled % 1000] = row
        self.filled += 1

class Agent:
    def __init__(self):
        self.memory = Memory()
    def remember(self, row):
        self.memory.store(row)
    def learn(self):
        if self.memory.filled < 32:
            return
        {zero}
        model(self.memory.rows[:32]).mean().backward()
        optimizer.step()

agent = Agent()
for episode in range(1000):
    state, done = env.reset(), False
    while not done:
        state, done = env.step(state)
        agent.remember(state)
        agent.learn()
"""


def test_a_memory_that_is_filled_by_way_of_another_method_is_full_one_day_too() -> None:
    assert told(HEAD + BY_WAY_OF_ANOTHER.format(zero="optimizer.zero_grad()")) == []
    assert told(HEAD + BY_WAY_OF_ANOTHER.format(zero="pass")) == ["GK101"]


def test_a_flag_that_a_counter_waits_for_is_computed_though_only_the_counter_reads_it() -> None:
    head = (
        "from torch.utils.data import DataLoader\n"
        + HEAD
        + "loader, seen = DataLoader(data, **config.loader), 0\n"
    )
    body = """
        (model(x).mean() / config.every).backward()
        if (seen{first}) % config.every == 0:
            optimizer.step()
            optimizer.zero_grad()
        last = i == len(loader) - 1
        if not last:
            print(i)
            seen += 1
    """
    over = "for i, x in enumerate(loader):"

    assert "GK202" in told(loop(body.format(first=""), over=over, head=head))
    assert "GK202" not in told(loop(body.format(first=" + 1"), over=over, head=head))


def test_what_one_branch_sets_of_something_unknown_it_has_otherwise_in_the_other() -> None:
    cut = "if config.debug:\n    config.most = 2\n"
    body = """
        (model(x).mean() / 3).backward()
        if i % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        if config.most is not None and i >= config.most - 1:
            break
    """
    over = "for i, x in enumerate(loader):"
    head = "config = load()\n" + HEAD

    assert told(loop(body, over=over, head=head + cut)) == ["GK202"]
    assert told(loop(body.replace("i % 3", "(i + 1) % 3"), over=over, head=head + cut)) == []


LINE_SEARCH = """
import torch
from elsewhere import progress
model = torch.nn.Linear(4, 1)

class Search(torch.optim.Optimizer):
    def step(self, closure):
        loss = closure()
        while True:
            loss.backward()
            for group in self.param_groups:
                for p in group["params"]:
                    p.data.add_(p.grad, alpha=-0.1)
            if loss < 1:
                break
        return loss

def fit(x):
    optimizer = Search([x], dict(lr=0.1))
    def closure():
        optimizer.zero_grad()
        return model(x).mean()
    for i in progress(range(100)):
        if i == 0:
            loss = closure()
            loss.backward()
        else:
            loss = {goes_on}
"""


def test_a_first_round_that_only_goes_back_is_not_each_round_of_a_loop_out_of_sight() -> None:
    assert told(LINE_SEARCH.format(goes_on="optimizer.step(closure)")) == []
    assert set(told(LINE_SEARCH.format(goes_on="closure().backward()"))) == {"GK107"}


MADE_BY_NAME = """
import argparse
import torch

class Agent:
    def __init__(self):
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def update(self, x):
        self.model(x).mean().backward()
        self.optimizer.step()
    def save(self, i):
        torch.save(self.model.state_dict(), str(i))

def make(args):
    if args.agent == "greedy":
        return Agent()
    else:
        assert "unknown agent: %s" % args.agent

args = argparse.ArgumentParser().parse_args()
agent = make(args)
for i, x in enumerate(load()):
    if i % args.every == 0:
        agent.save(i)
    if i >= args.first:
        for _ in range(args.first if i == args.first else 1):
            agent.update(x)
            {after}
"""


def test_what_a_function_is_called_for_is_what_it_gives() -> None:
    right = "agent.optimizer.zero_grad()"
    wrong = f"torch.nn.utils.clip_grad_norm_(agent.model.parameters(), 1.0); {right}"

    assert told(MADE_BY_NAME.format(after=right)) == []
    assert told(MADE_BY_NAME.format(after=wrong)) == ["GK304"]


IN_PARTS = """
optimizer.zero_grad()
for i in range(0, x.shape[0], args.{size}):
    part = x[i : i + args.{size}].cuda()
    loss = F.mse_loss(model(part), part)
    {backward}
{step}optimizer.step()
"""


@pytest.mark.parametrize(
    ("size", "backward", "step", "expected"),
    [
        ("micro_batch_size", "loss.backward()", "", ["GK201"]),
        ("micro_batch_size", "(loss * len(part) / len(x)).backward()", "", []),
        ("micro_batch_size", "(loss / pieces).backward()", "", []),
        ("micro_batch_size", "optimizer.zero_grad(); loss.backward()", "    ", []),
        ("time_steps", "loss.backward()", "", []),
    ],
)
def test_a_batch_in_micro_batches_is_a_window(
    size: str, backward: str, step: str, expected: list[str]
) -> None:
    head = "import argparse\n" + HEAD + "args = argparse.ArgumentParser().parse_args()\n"
    body = IN_PARTS.format(size=size, backward=backward, step=step)

    assert told(loop(body, head=head)) == expected


SAVED_EVERY_SO_OFTEN = """
for step in range(1, 10001):
    (F.mse_loss(model(x), y) / 8).backward()
    if step % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
    if step % {every} == 0:
        state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}
        torch.save(state, "last.pt")
"""


@pytest.mark.parametrize("every", [10, 100, 500])
def test_what_is_saved_after_more_rounds_than_are_rehearsed_is_saved_within_a_window(
    every: int,
) -> None:
    assert told(HEAD + SAVED_EVERY_SO_OFTEN.format(every=every)) == ["GK401"]


@pytest.mark.parametrize("every", [16, 200, 1000])
def test_what_is_saved_after_whole_windows_waits_for_none(every: int) -> None:
    assert told(HEAD + SAVED_EVERY_SO_OFTEN.format(every=every)) == []


COUNTED_IN_SAMPLES = """
BATCH = 16
loader = torch.utils.data.DataLoader(numbers(), batch_size=BATCH)
seen = 0
for epoch in range(20):
    for x, y in loader:
        (F.mse_loss(model(x), y){divided}).backward()
        seen += BATCH
        if seen >= {target}:
            optimizer.step()
            optimizer.zero_grad()
            seen = 0
"""


@pytest.mark.parametrize("target", [64, 256, 1024])
def test_a_number_of_samples_is_so_many_batches(target: int) -> None:
    window = target // 16
    code = HEAD + COUNTED_IN_SAMPLES
    assert "GK201" in told(code.format(divided="", target=target))
    assert "GK201" not in told(code.format(divided=f" / {window}", target=target))


COUNTED_IN_WAYS = """
from itertools import count, cycle
{before}
for i in range(400):
    loss = F.mse_loss(model(x), y)
    (loss{divided}).backward()
    {counted}
    if {full}:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("before", "counted", "full"),
    [
        ("micro = count(1)", "pass", "next(micro) % 4 == 0"),
        ("last = cycle([False, False, False, True])", "pass", "next(last)"),
        ("", "window, place = divmod(i, 4)", "place == 3"),
    ],
)
def test_windows_are_counted_by_what_hands_out_numbers(
    before: str, counted: str, full: str
) -> None:
    code = HEAD + COUNTED_IN_WAYS
    assert told(code.format(before=before, counted=counted, full=full, divided=" / 4")) == []
    assert told(code.format(before=before, counted=counted, full=full, divided="")) == ["GK201"]


LISTED = """
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
seen = []
for i in range(400):
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    (F.mse_loss(model(x), y) / 8).backward()
    {each}
    seen.append(x.mean().item())
    if len(seen) == 8:
        optimizer.step()
        optimizer.zero_grad()
        {window}
        {again}
"""


@pytest.mark.parametrize("again", ["seen.clear()", "seen = []"])
def test_a_list_that_is_emptied_counts_a_window(again: str) -> None:
    code = HEAD + LISTED
    assert told(code.format(each="pass", window="scheduler.step()", again=again)) == []
    assert told(code.format(each="scheduler.step()", window="pass", again=again)) == ["GK205"]


WEIGHTED = """
def train(args, loader):
    for i, (x, y) in enumerate(loader):
        loss = F.mse_loss(model(x), y)
        (args.weight * loss / args.accumulate).backward()
        if {full} % args.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def test_what_is_divided_by_a_windows_length_may_have_a_weight_of_its_own() -> None:
    assert told(HEAD + WEIGHTED.format(full="(i + 1)")) == []
    assert told(HEAD + WEIGHTED.format(full="i")) == ["GK202"]


ROLLED_BACK = """
for i, x in enumerate(torch.randn(500, 8, 4)):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    if torch.isnan(loss):
        model.load_state_dict(torch.load("last.pt", weights_only=True))
        {then}
    optimizer.step()
    if i % 50 == 0:
        torch.save(model.state_dict(), "last.pt")
"""


def test_weights_that_were_loaded_for_a_bad_loss_do_not_take_its_gradients() -> None:
    assert told(HEAD + ROLLED_BACK.format(then="continue")) == []
    assert told(HEAD + ROLLED_BACK.format(then="optimizer.zero_grad()")) == []
    assert told(HEAD + ROLLED_BACK.format(then="pass")) == ["GK403"]


PARTS = """
def train(batches, {number}):
    for batch in batches:
        size = len(batch) // {number}
        for i in range({number}):
            x = batch[i * size : (i + 1) * size]
            (F.mse_loss(model(x), x.sum(1)){divided}).backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_slices_of_a_batch_are_micro_batches_where_the_program_says_so() -> None:
    code = HEAD + PARTS
    assert told(code.format(number="accumulate", divided=" / accumulate")) == []
    assert told(code.format(number="accumulate", divided="")) == ["GK201"]
    assert told(code.format(number="length", divided="")) == []  # time steps are a sum
    of_returns = code.replace("range({number})", "range(len({number}))")
    assert told(of_returns.format(number="accumulated_returns", divided="")) == []


WEIGHED_BY_GRADIENT = """
def train(batches, micro_batch):
    for batch in batches:
        for i in range(0, len(batch), micro_batch):
            loss = F.mse_loss(model(batch[i : i + micro_batch]), y)
            {backward}
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("backward", ["loss.backward({})", "torch.autograd.backward(loss, {})"])
def test_a_gradient_that_is_given_weighs_the_loss(backward: str) -> None:
    code = HEAD + WEIGHED_BY_GRADIENT
    share = "torch.tensor(micro_batch / len(batch))"
    assert told(code.format(backward=backward.format(share))) == []
    assert told(code.format(backward=backward.format("None"))) == ["GK201"]


COUNTED_BY_SIXTEEN = """
import itertools

numbers = itertools.count({start}, 16)
for _ in range(400):
    seen = next(numbers)
    (F.mse_loss(model(x), y){divided}).backward()
    if seen % 64 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_what_counts_in_steps_of_its_own_comes_to_a_window_sooner() -> None:
    code = HEAD + COUNTED_BY_SIXTEEN
    assert told(code.format(start=16, divided=" / 4")) == []
    assert "GK201" in told(code.format(start=16, divided=""))
