"""Which runs are made of a program, and what follows from several of them."""

import ast
from collections.abc import Hashable

import pytest

from gradkeeper.lint.certainty import UNTOLD, weigh
from gradkeeper.lint.explore import roots
from gradkeeper.lint.imports import Project
from gradkeeper.lint.interpreter.plan import Plan, Question
from gradkeeper.lint.interpreter.values import Condition, Unknown
from gradkeeper.lint.program import Checked
from gradkeeper.lint.rehearse import rehearse_files
from gradkeeper.lint.run import TOTAL, Program, Run
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.rules import ALL
from tests.lint.linting import HEAD, findings, told


def check(files: dict[str, str]) -> dict[str, Checked]:
    trees = {path: ast.parse(text, path) for path, text in files.items()}
    return rehearse_files(trees, tuple(ALL))


def spoken(checked: Checked) -> list[Finding]:
    return [one for one in checked.findings if one.severity is not Severity.INFO]


MAIN = """
import torch
from torch import nn
from engine import train

model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
{extra}
train(model, optimizer, [torch.randn(8, 4) for _ in range(6)])
"""
ENGINE = """
def train(model, optimizer, loader):
    for x in loader:
        model(x).square().mean().backward()
        optimizer.step()
"""


def test_a_fault_of_two_files_stands_in_the_file_of_its_line() -> None:
    found = check({"main.py": MAIN.format(extra=""), "engine.py": ENGINE})

    assert not spoken(found["main.py"])
    assert [(one.rule, one.site.line) for one in spoken(found["engine.py"])] == [("GK101", 5)]


def test_what_the_callers_file_makes_right_is_right() -> None:
    hook = "optimizer.register_step_post_hook(lambda *_: optimizer.zero_grad())"

    found = check({"main.py": MAIN.format(extra=hook), "engine.py": ENGINE})

    assert not spoken(found["main.py"])
    assert not spoken(found["engine.py"])


OPTION = """
import argparse
import torch
from torch import nn

args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
for step in range(100):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    if args.amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if args.amp:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
"""


def test_what_holds_under_one_setting_is_told_with_it() -> None:
    (finding,) = spoken(check({"train.py": OPTION})["train.py"])

    assert (finding.rule, finding.site.line) == ("GK301", 17)
    assert finding.certain
    assert finding.when == "args.amp is true"


FROM_BOTH_BRANCHES = """
import argparse
import torch

args = argparse.ArgumentParser().parse_args()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def work(ranks):
    for x in torch.randn(6, 8, 4):
        model(x).square().mean().backward()
        optimizer.step()
        if {clears}:
            optimizer.zero_grad()

if args.ranks > 1:
    work(2)
else:
    work(1)
"""


@pytest.mark.parametrize(
    ("clears", "when"),
    [("False", None), ("ranks == 1", "args.ranks > 1"), ("ranks == 2", "args.ranks <= 1")],
)
def test_a_branch_is_told_only_where_the_other_one_is_without_the_fault(
    clears: str, when: str | None
) -> None:
    (finding,) = spoken(check({"train.py": FROM_BOTH_BRANCHES.format(clears=clears)})["train.py"])

    assert (finding.rule, finding.site.line) == ("GK101", 12)
    assert finding.when == when


CLEARED_IF = """
import argparse
import torch

args = argparse.ArgumentParser().parse_args()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    if {test}:
        optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "when"),
    [
        ("args.each", "args.each is false"),
        ("args.n > 5", "args.n <= 5"),
        ("5 >= args.n", "args.n > 5"),
        ("isinstance(args.mode, str)", "isinstance(args.mode, str) is false"),
        ("args.mode.endswith('x')", "args.mode.endswith('x') is false"),
        ("args.mode.replace('a', 'b') == 'x'", "args.mode.replace('a', 'b') != 'x'"),
        ("args.each or args.first", "args.each is false and args.first is false"),
    ],
)
def test_a_setting_is_told_as_it_is_written(test: str, when: str) -> None:
    (finding,) = spoken(check({"train.py": CLEARED_IF.format(test=test)})["train.py"])

    assert (finding.rule, finding.site.line) == ("GK101", 12)
    assert finding.when == when


def test_what_chance_may_avert_is_only_possible() -> None:
    source = OPTION.replace("optimizer.zero_grad()", "if loss.item() > 1: optimizer.zero_grad()")

    found = check({"train.py": source})["train.py"].findings

    stale = [one for one in found if one.rule == "GK101"]
    assert stale
    assert not any(one.certain for one in stale)


SPIKES = """
import argparse
import torch

args = argparse.ArgumentParser().parse_args()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
average = 0
for number, x in enumerate(torch.randn(100, 8, 4)):
    loss = model(x).square().mean()
    loss.backward()
    skipped = False
    if args.limit > 0:
        if {reason}:
            skipped = True
            optimizer.zero_grad()
    if not skipped:
        optimizer.step()
        optimizer.zero_grad()
    average = 0.9 * average + 0.1 * loss.item()
"""


def test_a_batch_that_is_left_out_for_its_loss_is_not_thrown_away_time_and_again() -> None:
    now_and_then = SPIKES.format(reason="average > 0 and loss.item() > args.limit * average")
    always = SPIKES.format(reason="number % 2 == 1")

    assert spoken(check({"train.py": now_and_then})["train.py"]) == []
    (finding,) = spoken(check({"train.py": always})["train.py"])
    assert (finding.rule, finding.site.line) == ("GK102", 16)
    assert finding.when == "args.limit > 0"


IN_A_CLASS = """
import torch

class Algorithms:
    class Plain:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def fit(self, loader):
            for x in loader:
                {zero}
                self.net(x).mean().backward()
                self.optimizer.step()
"""
IN_A_FUNCTION = """
import torch

def algorithm(rate):
    class Plain:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.SGD(net.parameters(), lr=rate)

        def fit(self, loader):
            for x in loader:
                {zero}
                self.net(x).mean().backward()
                self.optimizer.step()

    return Plain
"""


@pytest.mark.parametrize("nested", [IN_A_CLASS, IN_A_FUNCTION])
def test_a_class_is_found_wherever_it_is_defined(nested: str) -> None:
    assert told(nested.format(zero="self.optimizer.zero_grad()")) == []
    assert told(nested.format(zero="pass")) == ["GK101"]


ATTACK = """
from torch.nn.functional import cross_entropy


def attack(model, x, y, rounds):
    delta = x.clone().requires_grad_()
    for _ in range(rounds):
        cross_entropy(model(delta), y).backward()
        delta = (x + delta.grad.sign()).detach().requires_grad_()
    return delta.detach()
"""
DEFEND = """
import torch
from torch.nn.functional import cross_entropy
from attacks import attack

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters())
for x, y in torch.load("batches.pt"):
    x = attack(model, x, y, 10)
    optimizer.zero_grad()
    cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def test_a_file_that_trains_around_a_loop_of_another_file_has_a_budget_of_its_own() -> None:
    def budget(files: dict[str, str]) -> int:
        trees = {path: ast.parse(text, path) for path, text in files.items()}
        program = Program(Project(trees), tuple(ALL))
        list(roots(program))
        return program.budget

    one = budget({"attacks.py": ATTACK, "a.py": DEFEND, "b.py": "import attacks\n"})
    two = budget({"attacks.py": ATTACK, "a.py": DEFEND, "b.py": DEFEND})
    assert two - one == TOTAL


def test_every_mode_is_tried_before_something_is_missed_in_all_of_them() -> None:
    code = """
    import argparse
    import torch
    from torch import nn

    class Stored(torch.utils.data.Dataset):
        def __init__(self, path):
            self.x, self.y = torch.load(path)
            if len(self.x.shape) < 3:
                self.x = self.x.unsqueeze(2)
            if self.x.shape.index(min(self.x.shape)) != 1:
                self.x = self.x.permute(0, 2, 1)
            if self.x.is_sparse:
                self.x = self.x.to_dense()

        def __getitem__(self, index):
            return self.x[index], self.y[index]

    parser = argparse.ArgumentParser()
    parser.add_argument("--mode")
    mode = parser.parse_args().mode
    loader = torch.utils.data.DataLoader(Stored("train.pt"))
    model, contrast = nn.Linear(4, 4), nn.Linear(4, 1)
    if mode == "fine_tune":
        model.load_state_dict(torch.load("last.pt"))
    if mode == "linear" or "tl" in mode:
        model.load_state_dict(torch.load("first.pt"))
    optimizer = torch.optim.Adam(model.parameters())
    other = torch.optim.Adam(contrast.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        other.zero_grad()
        features = model(x)
        if mode == "contrast":
            loss = {loss}.mean()
        else:
            loss = nn.functional.mse_loss(features, y)
        loss.backward()
        optimizer.step()
        other.step()
    """

    assert told(code.format(loss="contrast(features)")) == []
    assert "GK103" in told(code.format(loss="features"))


CHAIN = """
import torch
from contextlib import nullcontext
from options import args

def choose(precision):
    if precision == "half":
        return torch.autocast("cuda", torch.float16)
    elif precision == "brain":
        return torch.autocast("cuda", torch.bfloat16)
    else:
        return nullcontext()

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    with choose(args.precision):
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""


def test_a_chain_that_returns_in_any_case_is_gone_down_first() -> None:
    project = Project({"train.py": ast.parse(CHAIN)})

    first = next(iter(roots(Program(project, tuple(ALL)))))[0]

    assert next(iter(first.settings.values())) is False


MANY_WAYS_OUT = """
import torch
from recipes import build, describe, options

def main(args):
    model, loader = build(args)
    optimizer = torch.optim.Adam(model.parameters())
{ends}
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
{rates}
        if args.free:
            optimizer.param_groups[0]["lr"] = 0.1
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

main(options())
"""
END = """    if args.end_{0}:
        return describe(model)"""
RATE = """        if args.set_{0}:
            optimizer.param_groups[0]["lr"] = args.rate_{0}"""


@pytest.mark.parametrize("ends", [1, 8])
def test_a_setting_is_tried_beside_others_that_end_all_training(ends: int) -> None:
    code = MANY_WAYS_OUT.format(
        ends="\n".join(END.format(number) for number in range(ends)),
        rates="\n".join(RATE.format(number) for number in range(ends)),
    )

    assert [finding.rule for finding in spoken(check({"train.py": code})["train.py"])] == ["GK304"]


def told_where(*runs: tuple[bool, bool, bool]) -> str | None:
    """Where a finding is told to hold, of runs with `keep`, `fast` and the finding, or without."""
    (finding,) = spoken(check({"main.py": MAIN.format(extra=""), "engine.py": ENGINE})["engine.py"])
    key = (finding.rule, finding.site.file, finding.site.line)

    def run(keep: bool, fast: bool, wrong: bool) -> Run:
        questions: dict[Hashable, Question] = {
            name: Question(Condition("", Unknown(name, f"args.{name}")), name, True, answer)
            for name, answer in (("keep", keep), ("fast", fast))
        }
        made = Run(Plan(), questions, findings={key: finding} if wrong else {})
        made.spends = made.verified = True
        made.lines = frozenset({key[1:]})
        return made

    (weighed,) = weigh([run(*one) for one in runs])
    return weighed.when


def test_the_setting_that_makes_a_finding_go_away_is_told() -> None:
    assert told_where((True, True, True), (False, True, False)) == "args.keep is true"


def test_of_several_settings_none_is_told_that_was_not_tried_by_itself() -> None:
    assert told_where((True, True, True), (False, False, False)) == UNTOLD


NESTED = """
import argparse

import torch
from torch import nn

args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    if args.penalty:
        loss = loss + args.weight * model.weight.abs().sum()
        if args.slow:
            optimizer.param_groups[0]["lr"] = 0.01
    loss.backward()
    {step}
"""


def test_a_setting_that_only_another_leads_to_is_tried_both_ways() -> None:
    assert told(NESTED.format(step="pass")) == ["GK107"]
    assert told(NESTED.format(step="if args.penalty and not args.slow: optimizer.step()")) == []
    assert told(NESTED.format(step="if args.penalty and args.slow: optimizer.step()")) == []
    assert told(NESTED.format(step="optimizer.step()")) == []


SHOWN = """
import torch
from torch import nn
from options import args

def epoch(model, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for parameter in model.parameters():
    {each}
if args.wide:
    optimizer.zero_grad()
if args.fixed:
    model.requires_grad_(False)
if args.slow:
    optimizer.param_groups[0]["lr"] = 0.1
"""


def test_a_script_that_only_sets_weights_is_not_gone_through_as_if_it_trained() -> None:
    def runs(each: str) -> int:
        project = Project({"show.py": ast.parse(SHOWN.format(each=each))})
        return len(next(iter(roots(Program(project, tuple(ALL))))))

    assert runs("parameter.data = torch.zeros(4)") == runs("print(parameter)")
    assert runs("optimizer.step()") > runs("print(parameter)")


SHORT = """
import torch
from data import loader

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = iter(loader)
for i in range({rounds}):
    x, y = next(batches)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("rounds", "rehearsals"),
    [
        pytest.param("len(loader) - 2", 2, id="two more are enough"),
        pytest.param("0, len(loader), 8", 3, id="two more are no help: as many as there may be"),
    ],
)
def test_a_loop_that_lacks_rounds_is_given_more(rounds: str, rehearsals: int) -> None:
    (loop,) = check({"train.py": SHORT.format(rounds=rounds)})["train.py"].training

    assert (loop.why, loop.rehearsals) == ("", rehearsals)


BY_LIST = """
import torch
from options import args

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler()

for batch in loader:
    loss = model(batch).mean()
    optimizer.zero_grad()
    if args.precision in ["half", "mixed"]:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    if args.precision in ["half", {other}]:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
"""


def test_equal_lists_that_are_written_twice_are_one_setting() -> None:
    assert told(BY_LIST.format(other="'mixed'")) == []
    assert set(told(BY_LIST.format(other="'double'"))) == {"GK302"}


BUILT = """
import sys
import torch
from models import Large, Small

SIZES = {{"s": 1, "l": 2}}

def build(name):
    {first}
        return Large()
    if name == "small":
        return Small()
    {last}

model = build(sys.argv[1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    {zero}
    model(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "last",
    [
        pytest.param("raise ValueError(name)", id="raise"),
        pytest.param("sys.exit(f'no such model: {name}')", id="exit"),
    ],
)
@pytest.mark.parametrize(
    "first", ["if name == 'large':", "for size in SIZES:\n      if size in name:"]
)
def test_a_maker_that_knows_no_other_name_and_raises_has_made_one_before(
    first: str, last: str
) -> None:
    right = BUILT.format(first=first, last=last, zero="optimizer.zero_grad()")
    wrong = BUILT.format(first=first, last=last, zero="pass")

    assert told(right) == []
    assert told(wrong) == ["GK101"]


def test_a_function_that_only_raises_ends_the_program() -> None:
    code = BUILT.format(first="if False:", last="raise ValueError(name)", zero="pass")

    assert told(code.replace('if name == "small"', "if False")) == []


MOVED = """
import torch
from data import Data

def move(batch):
    if isinstance(batch, torch.Tensor):
        return batch.cuda()
    elif isinstance(batch, list):
        return [{part} for part in batch]
    elif isinstance(batch, tuple):
        return tuple({part} for part in batch)
    elif isinstance(batch, dict):
        return {{name: {part} for name, part in batch.items()}}
    return batch

def prefetch(loader):
    batches = iter(loader)
    batch = move(next(batches))
    while batch is not None:
        yield batch
        try:
            batch = move(next(batches))
        except StopIteration:
            batch = None

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in prefetch(torch.utils.data.DataLoader(Data())):
    optimizer.zero_grad()
    model(batch["x"]).mean().backward()
    optimizer.step()
"""


def test_a_function_that_goes_through_something_nested_is_followed_once() -> None:
    def operations(code: str) -> int:
        program = Program(Project({"train.py": ast.parse(code)}), tuple(ALL))
        list(roots(program))
        return program.operations

    assert operations(MOVED.format(part="move(part)")) < 2 * operations(MOVED.format(part="part"))


LEFT_OUT = """\
import argparse
import torch

args = argparse.ArgumentParser().parse_args()
if args.model == "wide":
    model = torch.nn.Linear(4, 1)
elif args.model == "deep":
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
else:
    raise ValueError(args.model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    if batch.x.shape[0] == 1 or batch.where[-1] == 0:
        pass
    else:
        optimizer.zero_grad()
        model(batch.x).mean().backward()
        optimizer.step()
"""


def test_a_batch_that_trains_is_looked_for_behind_more_than_one_test() -> None:
    assert told(LEFT_OUT) == []
    assert told(LEFT_OUT.replace("        optimizer.zero_grad()\n", "")) == ["GK101"]


SET_UP_BEFORE = """
import torch
from torch import nn

class Learner:
    def __init__(self, net):
        self.net = net

    def configure(self, lr):
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr)

    def learn(self, x, y):
        {zero}
        nn.functional.mse_loss(self.net(x), y).backward()
        self.optimizer.step()
"""


def test_what_another_method_has_set_up_is_no_sign_of_a_single_call() -> None:
    assert told(SET_UP_BEFORE.format(zero="self.optimizer.zero_grad()")) == []
    assert told(SET_UP_BEFORE.format(zero="pass")) == ["GK101"]
    built_here = "self.configure(0.1)"  # for each call anew: whoever does so calls once
    assert told(SET_UP_BEFORE.format(zero=built_here)) == []


OUT_OF_SIGHT = """
import torch
from torch import nn

def train(model, data, optimizer, scaler, scheduler, args):
    for i, (x, y) in enumerate(data):
        scheduler(i)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        if scaler is not None:
            scaler.scale(loss).backward()
            if args.elsewhere:
                optimizer.synchronize()
                scaler.unscale_(optimizer)
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)
            else:
                {step}
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""


def test_an_option_that_leads_out_of_sight_is_tried_the_other_way() -> None:
    assert told(OUT_OF_SIGHT.format(step="scaler.step(optimizer)")) == []
    (finding,) = findings(OUT_OF_SIGHT.format(step="optimizer.step()"))
    assert (finding.rule, finding.when) == ("GK302", "args.elsewhere is false")


ONE_AT_FIRST = """
ACCUMULATION_STEPS = {length}
for i, x in enumerate(loader):
    model(x).mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if (i + 1) % ACCUMULATION_STEPS == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(("length", "when"), [("1", "ACCUMULATION_STEPS > 1"), ("4", None)])
def test_what_only_longer_windows_have_says_so_where_the_program_has_short_ones(
    length: str, when: str | None
) -> None:
    found = [one for one in findings(HEAD + ONE_AT_FIRST.format(length=length)) if one.certain]

    clipped = next(finding for finding in found if finding.rule == "GK304")

    assert clipped.when == when
