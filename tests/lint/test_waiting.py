"""Definitions that a rehearsal makes when they are asked for: only where that changes nothing."""

import ast
from textwrap import dedent

from gradkeeper.lint.interpreter.facts import Facts

from .linting import told


def waiting(code: str) -> set[str]:
    facts = Facts()
    facts.add([(ast.parse(dedent(code)), "train.py")])
    return set(facts.can_wait("train.py"))


def test_functions_and_classes_can_wait() -> None:
    code = """
    from torch import nn
    SIZE = 4
    class Net(nn.Module):
        size = SIZE
        def forward(self, x, scale=SIZE):
            return x
    def helper(x=1):
        return x
    """

    assert waiting(code) == {"Net", "helper"}


def test_what_is_decorated_or_defined_twice_cannot() -> None:
    code = """
    @register
    def first(): ...
    def second(): ...
    if fast:
        def second(): ...
    from helpers import third
    def third(): ...
    """

    assert waiting(code) == set()


def test_what_reads_something_that_changes_cannot() -> None:
    code = """
    RATE = 0.1
    TABLE = {}
    LATE = 1
    def set_rate():
        global RATE
        RATE = 0.2
    def fill():
        TABLE.update(a=1)
    def by_rate(rate=RATE): ...
    def by_late(late=LATE): ...
    class ByTable:
        table = TABLE
    LATE = 2
    """

    assert waiting(code) == {"set_rate", "fill"}


def test_nothing_waits_beside_names_that_nobody_can_tell() -> None:
    assert waiting("from helpers import *\ndef helper(): ...\n") == set()


TRAINER = """
import torch
from torch import nn

RATE = 0.1
STEPS = {}

def register(function):
    STEPS["train"] = function
    return function

@register
def advance(optimizer):
    optimizer.step()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        return self.layer(x)

def build():
    net = Net()
    return net, torch.optim.SGD(net.parameters(), lr=RATE)

class Trainer:
    def fit(self, loader):
        net, optimizer = build()
        for x in loader:
            net(x).mean().backward()
            STEPS["train"](optimizer)
"""


def test_a_rehearsal_finds_what_waited_and_what_could_not() -> None:
    assert told(TRAINER) == ["GK101"]


def test_and_is_silent_where_it_is_right() -> None:
    right = TRAINER.replace(
        "for x in loader:", "for x in loader:\n            optimizer.zero_grad()"
    )

    assert told(right) == []
