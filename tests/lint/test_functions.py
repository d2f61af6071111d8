"""Functions that are entered once and passed over later: only where nothing is lost by it."""

import pytest

from tests.lint.linting import told

ACTOR_CRITIC = """
import torch
from torch import nn

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Linear(3, 1)

    def draw(self, obs):
        out = self.mu(obs)
        return out, out

def both(a, b):
    return a, b

policy, critic = Policy(), nn.Linear(1, 1)
policy_optimizer = torch.optim.Adam(policy.parameters())
critic_optimizer = torch.optim.Adam(critic.parameters())
{before}
for _ in range(5):
    obs = torch.randn(4, 3)
    {first}
    critic_optimizer.zero_grad()
    critic(torch.randn(4, 1)).mean().backward()
    critic_optimizer.step()
    action, _ = {action}
    policy_optimizer.zero_grad()
    critic(action).mean().backward()
    policy_optimizer.step()
"""
FROZEN = """
policy.requires_grad_(False)
policy.draw(torch.randn(4, 3))
policy.requires_grad_(True)
"""


@pytest.mark.parametrize(
    ("before", "first", "action"),
    [
        pytest.param(
            "", "with torch.no_grad(): policy.draw(obs)", "policy.draw(obs)", id="no_grad"
        ),
        pytest.param(FROZEN, "", "policy.draw(obs)", id="a frozen module"),
        pytest.param("both(some, more)", "", "both(policy.mu(obs), obs)", id="unknown data"),
    ],
)
def test_a_function_that_first_gave_nothing_to_train_may_give_it_later(
    before: str, first: str, action: str
) -> None:
    code = ACTOR_CRITIC.format(before=before, first=first, action=action)

    assert told(code) == []


BY_ANOTHER_NAME = """
import sys
from functools import partial

import torch

class Loop:
    def __init__(self):
        self.model = torch.nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.chosen = self.noisy if sys.argv[1] == "noisy" else self.plain

    def plain(self, x):
        loss = self.model(x).pow(2).mean()
        {zero}
        loss.backward()
        self.optimizer.step()

    def noisy(self, x):
        loss = self.model(x + torch.randn_like(x)).abs().mean()
        {zero}
        loss.backward()
        self.optimizer.step()

def go(work, data):
    for x in data:
        work(x)

loop = Loop()
TABLE = {{"plain": loop.plain, "noisy": loop.noisy}}
{train}
"""


@pytest.mark.parametrize(
    "train",
    [
        pytest.param("for x in loader:\n    loop.chosen(x)", id="an attribute"),
        pytest.param("one = partial(loop.plain)\nfor x in loader:\n    one(x)", id="partial"),
        pytest.param(
            "one = torch.compile(loop.plain)\nfor x in loader:\n    one(x)", id="compiled"
        ),
        pytest.param("for x in loader:\n    TABLE[sys.argv[1]](x)", id="a table"),
        pytest.param("go(loop.plain, loader)", id="an argument"),
        pytest.param("go(work=lambda x: loop.plain(x), data=loader)", id="a lambda"),
    ],
)
def test_a_loop_trains_whatever_name_the_function_goes_by_that_does_it(train: str) -> None:
    right = BY_ANOTHER_NAME.format(zero="self.optimizer.zero_grad()", train=train)
    wrong = BY_ANOTHER_NAME.format(zero="pass", train=train)

    assert told(right) == []
    assert set(told(wrong)) == {"GK101"}


CALLBACKS = """
import torch

class Callback:
    def before_step(self, trainer): ...
    def after_step(self, trainer): ...

class Clears(Callback):
    def {when}(self, trainer):
        trainer.optimizer.zero_grad()

class Trainer:
    def __init__(self, callbacks):
        self.callbacks = callbacks
        self.model = torch.nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def tell(self, name):
        for callback in self.callbacks:
            {call}

    def __call__(self, name):
        self.tell(name)

    def fit(self, loader):
        for x in loader:
            self.model(x).pow(2).mean().backward()
            {before}
            self.optimizer.step()
            {after}

Trainer([Clears()]).fit(loader)
"""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("getattr(callback, name)(self)", id="at once"),
        pytest.param(
            "work = getattr(callback, name, None)\n            if work is not None: work(self)",
            id="by a variable",
        ),
    ],
)
@pytest.mark.parametrize("tell", ["self.tell({})", "self({})"])
def test_a_callback_that_is_asked_for_by_its_name_does_what_it_does(call: str, tell: str) -> None:
    before, after = tell.format("'before_step'"), tell.format("'after_step'")
    right = CALLBACKS.format(when="after_step", call=call, before=before, after=after)
    wrong = CALLBACKS.format(when="before_step", call=call, before=before, after=after)

    assert told(right) == []
    assert told(wrong) == ["GK102"]
